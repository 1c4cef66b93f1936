"""The speed of a crawl, by its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.settings import BaseSettings

__all__ = ["set_speed"]

# A server on this machine needs no protection, and no proxy is used.
_LOOPBACK = {
    "AUTOTHROTTLE_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    "HTTPPROXY_ENABLED": False,
}


def set_speed(settings: BaseSettings, hosts: Collection[str]) -> None:
    """Remove the delays if all *hosts* are loopback hosts; let no requests queue up.

    Requests beyond CONCURRENT_REQUESTS_PER_DOMAIN would only wait for their turn in the
    downloader. A request that waits there delays a stop, and is fetched again after a
    kill. The command line wins.
    """
    if all(map(is_loopback, hosts)):
        for name, value in _LOOPBACK.items():
            settings.set(name, value, priority="spider")
    useful = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") * len(hosts)
    if 0 < useful < settings.getint("CONCURRENT_REQUESTS"):
        settings.set("CONCURRENT_REQUESTS", useful, priority="spider")

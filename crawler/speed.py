"""How fast a crawl may be, by its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.settings import BaseSettings

__all__ = ["set_speed"]

# On this machine nobody needs to be spared, and no proxy stands between.
_LOOPBACK = {
    "AUTOTHROTTLE_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    "HTTPPROXY_ENABLED": False,
}


def set_speed(settings: BaseSettings, hosts: Collection[str]) -> None:
    """Take away the manners if all *hosts* are loopback ones; let nothing queue up.

    Requests beyond CONCURRENT_REQUESTS_PER_DOMAIN would only wait for their turn in
    the downloader: what waits there delays a stop, and is fetched again after a kill.
    The command line wins.
    """
    if all(map(is_loopback, hosts)):
        for name, value in _LOOPBACK.items():
            settings.set(name, value, priority="spider")
    useful = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") * len(hosts)
    if 0 < useful < settings.getint("CONCURRENT_REQUESTS"):
        settings.set("CONCURRENT_REQUESTS", useful, priority="spider")

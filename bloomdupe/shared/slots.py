"""Slots: a request's own, and not that of the host where it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from scrapy import Request

__all__ = ["forget_inherited_slot"]

SLOT = "download_slot"


def forget_inherited_slot(request: Request, parent: Request) -> None:
    """Take from a request the slot that only its parent's host has given to it.

    Scrapy's downloader writes the slot into ``meta``, and redirects hand it on, and so
    does ``meta=response.meta``. The slot decides which partition knows a request, so a
    page that is found from two hosts would be another one for each. A slot that a
    spider has named stays.
    """
    slot = request.meta.get(SLOT)
    if slot is None or slot == urlparse_cached(request).hostname:
        return
    if slot == urlparse_cached(parent).hostname:
        del request.meta[SLOT]

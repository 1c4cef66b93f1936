"""Inherited slot: removes the slot that a request has inherited from its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from scrapy import Request

__all__ = ["forget_inherited_slot"]

SLOT = "download_slot"


def forget_inherited_slot(request: Request, parent: Request) -> None:
    """Remove the slot that a request has inherited from its parent's host.

    Scrapy's downloader writes the slot into ``meta``; redirects and
    ``meta=response.meta`` pass it on. The slot decides which partition knows a request,
    so a page that is found on two hosts would count as two pages. A slot that a spider
    has named stays.
    """
    slot = request.meta.get(SLOT)
    if slot is None or slot == urlparse_cached(request).hostname:
        return
    if slot == urlparse_cached(parent).hostname:
        del request.meta[SLOT]

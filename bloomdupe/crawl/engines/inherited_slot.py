"""The slot that a request has inherited from the host of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from scrapy import Request

SLOT = "download_slot"


def forget_inherited_slot(request: Request, parent: Request) -> None:
    """Remove the slot that a request has inherited from its parent's host.

    Scrapy's downloader writes the slot into ``meta``; redirects and
    ``meta=response.meta`` pass it on. So a page that is found on two hosts would have
    two slots. A slot that a spider has named stays.
    """
    slot = request.meta.get(SLOT)
    if slot is None or slot == urlparse_cached(request).hostname:
        return
    if slot == urlparse_cached(parent).hostname:
        del request.meta[SLOT]

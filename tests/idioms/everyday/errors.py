"""Errbacks, and errors of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, Tree, item, path_of
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from table import idiom
from twisted.python.failure import Failure


class RaisesOnTheWay:
    """A downloader middleware that wants neither some requests nor some responses."""

    def process_request(self, request: Request, **_: Any) -> None:
        if request.url.endswith("/3"):
            raise IgnoreRequest("not this one")

    def process_response(self, request: Request, response: Response, **_: Any) -> Any:
        if request.url.endswith("/4"):
            raise IgnoreRequest("not what it says")
        return response


@idiom(downloader_middlewares={RaisesOnTheWay: 100})
class Ignored(Tree):
    """Downloader middlewares that raise IgnoreRequest, with and without errback."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        for link in response.css("a"):
            url = response.urljoin(link.attrib["href"])
            errback = self.failed if url.endswith("/3") else None
            yield response.follow(url, errback=errback)

    def failed(self, failure: Failure) -> Iterator[Any]:
        request: Request = failure.request  # type: ignore[attr-defined]
        yield {"page": path_of(request.url), "part": "ignored"}
        yield scrapy.Request(SITE + "/detail/3")

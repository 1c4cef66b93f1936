"""Request dicts: requests that another program stored with ``Request.to_dict()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request

from bloomdupe.crawl.requests.classes_by_name import loaded_class
from bloomdupe.jobs.request_line import wanted

if TYPE_CHECKING:
    from bloomdupe.jobs.request_line import Wanted

__all__ = ["from_dict"]


def from_dict(given: Any, *, start: bool = False) -> Wanted:  # noqa: ANN401
    """Return the request that a dict describes.

    Its class must be loaded already: a dict cannot cause an import. Raises any
    exception for an invalid dict.
    """
    if not isinstance(given, dict):
        raise TypeError("it is no dict of a request")
    class_: type[Request] = Request
    if "_class" in given:
        class_ = loaded_class(given["_class"])
        if not issubclass(class_, Request):
            raise TypeError(f"{given['_class']} is no kind of request")
    names = [given.get(name) for name in ("callback", "errback")]
    for name in names:
        if not isinstance(name, str | None):
            raise TypeError(f"it has a callback that is no name: {name!r}")
    callback, errback = names
    arguments = {
        name: given[name]
        for name in class_.attributes
        if name in given and name not in ("callback", "errback")
    }
    request = class_(**arguments)
    return wanted(request, callback or "parse", errback, start=start)

# mypy: ignore-errors
"""Identity: tells requests with ``dont_filter`` from each other.

Such requests often share a fingerprint: many requests for a URL, each with its own
cookies, arguments, headers or callback. After a crash they are yielded again, perhaps
in a different order, and each must be recognised.
"""

from __future__ import annotations

from functools import partial
from inspect import CO_NESTED
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest
from scrapy import Spider
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.engines.on_redis.going.canonical import canonical_text
from bloomdupe.crawl.engines.on_redis.going.nested_code import digest_of_code
from bloomdupe.requests.callbacks import name_in_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.middleware_values import (
        MiddlewareValues,
    )

BY_SCRAPY = frozenset(
    {
        "depth", "download_latency", "is_start_request", "redirect_reasons",
        "redirect_times", "redirect_ttl", "redirect_urls", "retry_times",
    }
)  # fmt: skip
"""Keys of ``meta`` that Scrapy sets on the way; they may differ in the next run."""
BY_BLOOMDUPE = "bloomdupe_"
"""Prefix of keys that control the time of a request, not its content."""


def identity_of(
    request: Request, fingerprint: bytes, by_middlewares: MiddlewareValues | None = None
) -> bytes:
    """Return an identity that tells a request from its parent's other requests.

    It is the same when the same code yields the same request in another process. If
    only URL, method and body make the request, it is the ``fingerprint``. For values of
    unknown types, only the type counts. Values do not count that the parent has
    ``by_middlewares`` and the spider has copied.
    """
    callback, errback = (
        name_of_callback(request.callback),
        name_of_callback(request.errback),
    )
    copied = by_middlewares.copied(request.meta) if by_middlewares else ()
    values: list[Any] = [
        request.cookies,
        request.cb_kwargs,
        {
            key: value
            for key, value in request.meta.items()
            if not (key in copied or _is_of_others(key))
        },
        {
            name: value
            for name, value in request.headers.items()
            if name != b"Referer"  # it depends on the page that led here
            and not (
                by_middlewares is not None and by_middlewares.has_header(name, value)
            )
        },
    ]
    if callback in (None, "parse") and errback is None and not any(values):
        return fingerprint
    parts = [repr(callback), repr(errback), *map(canonical_text, values)]
    text = f"[{', '.join(parts)}]".encode(errors="backslashreplace")
    return fingerprint + mmh3_x64_128_digest(text)


def is_once_more(
    request: Request,
    key: bytes,
    parent: Request,
    fingerprint: Callable[[Request], bytes],
) -> bool:
    """Whether a callback asks for its own page once more, to do the same work.

    ``key`` is the request's fingerprint. Callback and arguments must be the same, but
    the ``meta`` may differ: the spider may count its tries there.
    """
    if key != fingerprint(parent):
        return False
    callbacks = {
        name_of_callback(each.callback) or "parse" for each in (request, parent)
    }
    texts = {canonical_text(each.cb_kwargs) for each in (request, parent)}
    return len(callbacks) == 1 and len(texts) == 1


def _is_of_others(key: object) -> bool:
    if key in BY_SCRAPY:
        return True
    return isinstance(key, str) and key.startswith(BY_BLOOMDUPE)


def name_of_callback(function: Callable[..., Any] | None) -> str | None:
    """Return the name of a callback, which tells it from others.

    Of a lambda or the like, it is all that makes it.
    """
    if function is None:
        return None
    if type(function) is partial:
        arguments = canonical_text([function.args, function.keywords])
        return f"{name_of_callback(function.func)} {arguments}"
    if type(function) is MethodType:
        plain, owner = function.__func__, function.__self__
        name = name_in_class(owner, plain) or name_of_callback(plain)
        return name if isinstance(owner, Spider) else f"{name} of {_class_of(owner)}"
    name = str(getattr(function, "__name__", type(function).__name__))
    if type(function) is not FunctionType:
        return name
    if function.__code__.co_flags & CO_NESTED:
        values = [
            function.__defaults__,
            function.__kwdefaults__,
            *map(_content, function.__closure__ or ()),
        ]
        code = digest_of_code(function.__code__).hex()
        return f"{name} {code} {canonical_text(values)}"
    # Two modules may have a function of the same name, and so may two classes.
    return global_object_name(function)


def _class_of(owner: object) -> str:
    return global_object_name(owner if isinstance(owner, type) else type(owner))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return cell

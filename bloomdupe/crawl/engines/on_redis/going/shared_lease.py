# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ANN204
"""Lease: one request that is in progress, and its state until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.http import Response

from bloomdupe.crawl.engines.on_redis.going.answers import (
    ANY,
    MOST_ANSWERS,
    answer_of,
    items_of,
)
from bloomdupe.crawl.engines.on_redis.going.middleware_values import MiddlewareValues
from bloomdupe.crawl.engines.on_redis.going.names import OutputNames
from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.inside_scrapy.timer import Timer
from bloomdupe.store.format import request_key

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.on_redis.going.carried import Carried
    from bloomdupe.crawl.leases.outcomes import Answers


class OfPage(NamedTuple):
    """The page of a request in memory that is a root of its own."""

    page: SharedLease
    """The root that has yielded it; it is not settled before."""
    top: SharedLease
    """The first root above it that has no page."""
    recorded: bool
    """Whether its name is recorded with its page when it counts; or it is marked."""
    carried: Carried | None
    """The values that it came with, if they cannot change."""

    @property
    def is_apart(self) -> bool:
        """Whether it counts before its page: no callback has changed its values."""
        return self.carried is not None and self.carried.is_unchanged()


class SharedLease(Lease):
    """One request handed to the engine: a :class:`bloomdupe.inside_scrapy.work.Work`.

    Its *root* is the request itself, or the request that it repeats from memory. The
    root is not settled before all its parts and all requests in memory of its page are
    done; see :mod:`bloomdupe.crawl.engines.on_redis.going.in_memory`.
    """

    __slots__ = (
        "answer",
        "answers_before",
        "cut",
        "given_name",
        "handed",
        "held",
        "in_step",
        "instead",
        "items",
        "keys",
        "left",
        "middleware_values",
        "of_page",
        "outputs",
        "own",
        "own_outcome",
        "part_names",
        "whole_before",
    )

    root: Any
    own_outcome: Any

    def __init__(self, leases, request, entry, root, visit=None, name=None):
        super().__init__(leases, entry, root)
        self.request, self.visit = request, visit
        self.given_name = name
        self.middleware_values = MiddlewareValues(request)
        """The values that middlewares have set, once its answer has come."""
        self.of_page: OfPage | None = None
        """Its page, if it is a request in memory and has one."""
        self.held: list[SharedLease] = []
        """Requests in memory that are done, and count together with it."""
        self.outputs: OutputNames | None = None
        """Names of the requests that it has yielded and that their parents name."""
        self.keys: list[Any] = []
        """Marks to set when the request is settled."""
        self.part_names: list[bytes | None] = []
        """Names of the unstored requests of which it has been the root or the page."""
        self.left = False
        """Of the root: whether it has ended, and is not done."""
        self.own: Any = None
        """State of the request that only its engine knows."""
        self.items = 0
        """Items yielded so far."""
        self.handed: object = None
        """Argument of the callback or errback: a response or a failure."""
        self.answers_before: Answers = {}
        """Items that are in the output already, by the answer that brought them."""
        self.answer = ""
        """Digest of this answer, if its items are counted by answer."""
        self.whole_before = 0
        """Number of the first items of this answer that are in the output already."""
        self.cut = False
        """Whether the callback was ended by ``CloseSpider``."""
        self.instead: Any = None
        """The request that takes its place when it ends, as the engine holds it."""
        self.in_step = False
        """Whether an asynchronous callback waits, while other code runs."""

    @property
    def name(self) -> bytes:
        """Name of the request, the same in all runs.

        It is its place in the store, or the name of the request that it replaced. A
        request that cannot be stored has the name that its parent gives it.
        """
        if self.given_name is not None:
            return self.given_name
        return request_key(self.entry.queue.number, self.entry.rank)

    @property
    def is_named(self) -> bool:
        """Whether the request has its name again after a crash."""
        return self.entry.payload is not None or self.given_name is not None

    def name_of(self, identity: bytes | None) -> bytes | None:
        """Return the name of the next output with this identity, if it has one.

        Without an identity, the output goes on with the work of this request, and has
        its name.
        """
        if not self.is_named:
            return None
        if identity is None:
            return self.name
        return self.output_names().name_of(identity)

    def output_names(self) -> OutputNames:
        """Return the names of its outputs."""
        if self.outputs is None:
            self.outputs = OutputNames(self.name)
        return self.outputs

    def hold(self, root: Lease) -> None:
        """Let a request in memory that is done count together with this request."""
        # So that its own are not kept.
        root.request, root.middleware_values = self.request, self.middleware_values
        self.held += [root, *root.held]
        self.part_names += root.part_names
        root.held = []

    @property
    def items_left(self) -> Answers:
        """Items in the output that it has not yielded again yet, by answer."""
        left = dict(self.answers_before)
        own = self.answer if self.answer in left else ANY
        if self.answer and own in left:
            left[own] -= self.items
        return {answer: items for answer, items in left.items() if items > 0}

    @property
    def answers_after(self) -> Answers | None:
        """Items in the output, by answer, when it is left.

        None: none of its output of this time counts, because the next run repeats it
        all. The processing has broken off, or other requests are a part of it.
        """
        if self.broken or self.part_names:
            return None
        answers = dict(self.answers_before)
        answers.pop(ANY, None)
        answers.pop(self.answer, None)
        answers[self.answer] = max(self.items, self.whole_before)
        return dict([*answers.items()][-MOST_ANSWERS:])

    @property
    def top(self) -> Any:  # noqa: ANN401
        """The first root above it that has no page."""
        place = self.root.of_page
        return self.root if place is None else place.top

    @property
    def outcome(self):
        """The output of the request, and of every request of which it is a part."""
        return self.root.own_outcome

    @outcome.setter
    def outcome(self, outcome):
        self.root.own_outcome = outcome

    def answered(self, result: object) -> None:
        """Handle the downloader's answer: the slot is free."""
        self.release()
        for follow in self.leases.answered:
            follow(self, result)
        if isinstance(result, Response) and not self.answers_before:
            depth = self.request.meta.get("depth")  # a spider may put anything there
            if type(depth) is not int:
                depth = 0
            slot = self.entry.queue.name
            answer = (result.status, depth, slot, len(result.body))
            self.root.own_outcome.answers.append(answer)
        elif isinstance(result, Request):
            self.retried = result.url == self.request.url
            self.middleware_values.look(self.request)

    def given(self, result: object) -> None:
        """Remember the argument of the callback (a response) or errback (a failure)."""
        self.handed = result
        # A middleware may have given the response a different request.
        self.middleware_values.look(getattr(result, "request", None) or self.request)
        if self.answers_before:
            self.answer = answer_of(result)
            self.whole_before = items_of(self.answers_before, self.answer)

    def takes_item(self) -> bool:
        """Whether the next item is to be handed on, or is in the output already."""
        self.items += 1
        return self.items > self.whole_before

    def may_wait(self) -> None:
        """Let the request go that is held back, if the callback waits then.

        It may wait for that request, and would wait for ever.
        """
        if self.in_step and self.root.instead is not None:
            Timer(self._let_go).set(0)  # when the running code returns control

    def _let_go(self) -> None:
        if self.in_step and self.root.instead is not None:
            self.leases.engine.let_go(self.root)

    def closed_spider(self, _error, _response):
        """Remember that ``CloseSpider`` has ended the callback."""
        self.cut = True
        self.answer = answer_of(self.handed)

"""Outputs: the output of a callback, of which its work is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.inside_scrapy.work import CURRENT

if TYPE_CHECKING:
    from collections import defaultdict, deque
    from collections.abc import AsyncIterator, Awaitable

    from bloomdupe.inside_scrapy.work import Work


async def step(following: Awaitable[Any], work: Work) -> Any:  # noqa: ANN401
    """Await a step of an asynchronous callback, of which its work is told."""
    work.in_step = True
    try:
        work.may_wait()
        return await following
    finally:
        work.in_step = False


class Steps:
    """Outputs of an asynchronous callback; its work is told of each step."""

    def __init__(self, outputs: AsyncIterator[Any], work: Work | None) -> None:
        self._outputs = outputs
        self._work = work

    def __aiter__(self) -> Steps:
        return self

    def __anext__(self) -> Awaitable[Any]:
        following = self._outputs.__anext__()
        return following if self._work is None else step(following, self._work)


class _WithOwners:
    """Outputs of a callback, and the works of all outputs."""

    def __init__(
        self,
        outputs: Any,  # noqa: ANN401 - an iterator of either kind
        owners: defaultdict[int, deque[Work | None]],
        work: Work | None,
    ) -> None:
        self._outputs = outputs
        self._owners = owners
        self._work = work


class Owned(_WithOwners):
    """Outputs of a callback; records the work of each output when it is taken."""

    def __iter__(self) -> Owned:
        return self

    def __next__(self) -> Any:  # noqa: ANN401
        token = CURRENT.set(self._work)
        try:
            output = next(self._outputs)
        finally:
            CURRENT.reset(token)
        self._owners[id(output)].append(self._work)
        return output


class OwnedAsync(_WithOwners):
    """Outputs of an asynchronous callback, recorded in the same way."""

    def __aiter__(self) -> OwnedAsync:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401
        # Scrapy asks for an output before it has processed the last one.
        token = CURRENT.set(self._work)
        try:
            output = await anext(Steps(self._outputs, self._work))
        finally:
            CURRENT.reset(token)
        self._owners[id(output)].append(self._work)
        return output

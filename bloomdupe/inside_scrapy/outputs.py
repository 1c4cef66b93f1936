"""Outputs: the output of a callback, of which its work is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

"""The control of the crash tests: marks reach the disk before what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe import FrontierScheduler

if TYPE_CHECKING:
    from scrapy import Request

    from bloomdupe.frontier import Frontier


class MarksFirst(FrontierScheduler):
    """Commits each mark at once, as Scrapy's own scheduler does."""

    def _push(
        self,
        frontier: Frontier,
        request: Request,
        key: tuple[bytes, bool] | None = None,
    ) -> bool:
        if key is not None:
            frontier.seen.add(key[0])
        store = frontier._store
        assert store is not None
        store.commit(frontier.seen.change())
        return super()._push(frontier, request, key)

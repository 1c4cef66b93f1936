"""The control of the crash tests: marks reach the disk before their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe import FrontierScheduler

if TYPE_CHECKING:
    from scrapy import Spider

    from bloomdupe.crawl.engines.engine_contract import Accepted


class MarksFirst(FrontierScheduler):
    """Commits each mark at once, as Scrapy's own scheduler does."""

    def open(self, spider: Spider) -> Any:
        opened = super().open(spider)
        engine: Any = self._opened.engine
        take = engine.take
        seen = engine.frontier.seen
        store = engine.frontier.store
        assert store is not None

        def marking(offer: Accepted) -> bool:
            for key, exact in offer.keys:
                seen.add(key, exact=exact)
            store.commit(seen.prepare())
            return bool(take(offer))

        engine.take = marking
        return opened

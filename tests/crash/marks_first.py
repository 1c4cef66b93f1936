"""The control of the crash tests: marks reach the disk before what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe import FrontierScheduler

if TYPE_CHECKING:
    from scrapy import Request, Spider

    from bloomdupe.crawl.leases.lease import Key, Lease


class MarksFirst(FrontierScheduler):
    """Commits each mark at once, as Scrapy's own scheduler does."""

    def open(self, spider: Spider) -> Any:
        opened = super().open(spider)
        push = self._acceptance.push
        seen = self._opened.frontier.seen
        store = self._opened.frontier.store
        assert store is not None

        def marking(
            request: Request,
            parent: Lease | None,
            identity: bytes,
            keys: list[Key],
            *,
            name: bytes | None = None,
            instead: bool = False,
        ) -> bool:
            for each, exact in keys:
                seen.add(each, exact=exact)
            store.commit(seen.prepare())
            return push(request, parent, identity, keys, name=name, instead=instead)

        self._acceptance.push = marking  # type: ignore[method-assign]
        return opened

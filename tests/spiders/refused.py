"""Refuses commits, as a store does whose partition another worker has taken."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider

from bloomdupe.errors import NotOwnerError
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from bloomdupe.store.participant import Part
from bloomdupe.store.store import Commit


def refuse(seed: int, most: int) -> None:
    """Let half of the commits be refused, ``most`` of them, but for the first."""
    chance, left, first = random.Random(seed), [most], [True]
    begin = LmdbStore.begin

    def refusing(self: LmdbStore, *parts: Part) -> Commit:
        commit = begin(self, *parts)
        send = commit.send

        def sent() -> None:
            if first.pop() if first else left[0] == 0:
                send()
            elif chance.random() < 0.4:
                left[0] -= 1
                raise NotOwnerError("another worker has it")
            else:
                send()

        commit.send = sent  # type: ignore[method-assign]
        return commit

    LmdbStore.begin = refusing  # type: ignore[method-assign]


class Varied(Spider):
    """Follows links, and yields requests of every kind."""

    name = "varied"

    async def start(self) -> AsyncIterator[Any]:
        yield {"item": "start"}
        for url in self.start_urls:
            yield Request(url)
            yield Request(f"{url}?again", self.leaf, dont_filter=True)
            yield Request(f"{url}?memory", lambda response: [*self.leaf(response)])

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"item": response.url}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
        url = response.url
        yield Request(f"{url}?child", self.leaf, dont_filter=True)
        shared: list[str] = []
        for number in range(2):
            yield Request(
                f"{url}?part{number}",
                lambda page, shared=shared: self.part(page, shared),
            )

    def leaf(self, response: Any) -> Iterator[Any]:
        yield {"item": response.url}

    def part(self, response: Any, shared: list[str]) -> Iterator[Any]:
        shared.append(response.url)
        if len(shared) == 2:
            yield {"item": " ".join(sorted(shared))}

"""How ``frontier1/`` was made, once. A later format gets a folder of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scrapy import FormRequest, Request, Spider

from bloomdupe import BloomFilter
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.frontier.frontier import Frontier


class Golden(Spider):
    name = "golden"

    def parse_it(self, response: object) -> None: ...


spider = Golden()
serializer = Serializer(spider)
place = Path(sys.argv[1])
with BloomFilter.open(
    place / "full", 1000, 0.2, key=bytes(range(16)), identity={"spider": "golden"}
) as seen:
    owed = Frontier(seen)
    requests = [
        Request("https://www.a.example/start", meta={"is_start_request": True}),
        Request("https://www.a.example/again", meta={"is_start_request": True}),
        Request("https://a.example/1", callback=spider.parse_it, meta={"depth": 1}),
        Request("https://a.example/2", headers={"Referer": "https://a.example/"}),
        Request("http://a.example/retry", priority=-1, cb_kwargs={"n": (1, {2})}),
        Request("http://a.example/last", priority=-(10**20)),
        Request("http://a.example/first", priority=300, errback=spider.parse_it),
        Request("http://a.example/leased", priority=301),
        FormRequest("data:,x", formdata={"a": "b"}),
    ]
    requests += [Request(f"https://b.example/{number}") for number in range(100)]
    for request in requests:
        slot = (
            request.url.split("/")[2].removeprefix("www.") if "/" in request.url else ""
        )
        start = bool(request.meta.get("is_start_request"))
        assert seen.add(request.url.encode())
        owed.push(slot, request.priority, serializer.dump(request), start=start)
    assert owed.lease() is not None  # will be pending again
    owed.checkpoint()
    seen.backup(place / "frontier1")
    print(owed.pending, owed.leased, len(seen))
shutil.rmtree(place / "full")

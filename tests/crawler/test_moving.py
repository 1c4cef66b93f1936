"""A crawl moves over: begun by Scrapy alone, imported, and finished by bloomdupe."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from support.harness import STOCK, Project, SampleProcess, read_items

pytestmark = pytest.mark.slow


def verb(project: Project, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "bloomdupe", *arguments],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        (
            *("-s", "SCHEDULER_PRIORITY_QUEUE=scrapy.pqueues.ScrapyPriorityQueue"),
            *("-s", "SCHEDULER_DISK_QUEUE=scrapy.squeues.MarshalFifoDiskQueue"),
        ),
    ],
)
def test_nothing_is_lost_and_every_item_is_written_once(
    project: Project, sample: SampleProcess, options: tuple[str, ...]
) -> None:
    job = ("-a", f"url={sample.url}", "-s", "JOBDIR=job", "-o", "items.jsonl")
    half = ("-s", "CLOSESPIDER_PAGECOUNT=20")
    code, log = project.crawl(*job, *half, *STOCK, *options)
    assert code == 0, log
    first = len(read_items(project.folder / "items.jsonl"))
    assert 0 < first < len(sample.site.expected_pages(sample.url))

    code, log = project.crawl(*job, *options)
    assert code == 1
    assert "`bloomdupe import job --spider site` imports them" in log

    words = ("import", "job", "--spider", "site", "--trust-pickles")
    assert "requests pending now" in verb(project, *options, *words)
    code, log = project.crawl(*job, *options)
    assert code == 0, log
    assert "the last run ended: imported" in log

    items = read_items(project.folder / "items.jsonl")
    counted = Counter(item["url"] for item in items)
    # Scrapy does not mark start pages, and fetches them again at every resume.
    assert counted.pop(sample.url) == 2
    assert set(counted.values()) == {1}
    assert len(counted) == len(sample.site.expected_pages(sample.url)) - 1
    asked = Counter({path: n for (_, path), n in sample.requests().items()})
    missing = {path for _, path in sample.site.expected_requests()} - asked.keys()
    assert not missing

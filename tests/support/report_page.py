"""The page that ``bloomdupe report`` writes, read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Selector

if TYPE_CHECKING:
    from support.jobs import Verb


class Page:
    """The contents of a page: its texts, and the number of shapes in each chart."""

    def __init__(self, text: str) -> None:
        page = Selector(text=text)
        self.charts = {
            chart.attrib["aria-label"]: len(chart.css("path, use"))
            for chart in page.css("figure")
        }
        self.scripts = [script.attrib.get("type") for script in page.css("script")]
        texts = page.xpath("//text()[not(parent::script)]").getall()
        self.texts = [text.strip() for text in texts]


def report_of(verb: Verb, job: Path) -> Page:
    """Let the verb write the page of a job; read it."""
    answer = verb("report", job, "-o", "report.html")
    assert (answer.code, answer.err) == (0, "")
    return Page(Path("report.html").read_text("utf-8"))

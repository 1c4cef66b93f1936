"""The page that ``bloomdupe report`` writes, read."""

from __future__ import annotations

from scrapy import Selector


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

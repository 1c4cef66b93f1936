"""A web site made for crawling: it has every difficulty, and a known right answer.

``SampleSite`` is the link graph, ``SampleServer`` serves it over HTTP, and
``SampleJob`` serves it inside a crawl. As a program of its own::

    python -m crawler.sample_site --port 8000 --log access.log
"""

from __future__ import annotations

from crawler.sample_site.graph import SampleSite, canonical_path
from crawler.sample_site.job import SampleJob
from crawler.sample_site.server import SampleServer, open_port

__all__ = ["SampleJob", "SampleServer", "SampleSite", "canonical_path", "open_port"]

"""Opening: opens the engine, unless the crawl may not go on in this store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.engines.crawl_job import refuse_queue_of_scrapy
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.filter.bloom import BloomFilter

logger = logger_of(__name__)


def open_engine(session: Session, seen: BloomFilter, *, filtered: bool) -> None:
    """Let a session go on with the store of a filter, or in memory without a store.

    ``filtered`` says that a filter decides on duplicates.
    """
    _check_queue_of_scrapy(session, seen)
    open_in(session, CrawlEngine(session, seen, filtered=filtered))


def open_in(session: Session, engine: CrawlEngine) -> None:
    """Let a session go on with an engine."""
    session.attach(engine)
    session.stopping.reads_again = engine.refused
    engine.open()
    session.begin()
    _say_how_it_stands(session, engine)


def _check_queue_of_scrapy(session: Session, seen: BloomFilter) -> None:
    """Refuse a job with pending requests that only Scrapy's scheduler can see."""
    jobdir = session.crawler.settings["JOBDIR"]
    if not jobdir or seen.record("frontier") is not None:
        return
    refuse_queue_of_scrapy(Path(jobdir), session.spider.name)


def _say_how_it_stands(session: Session, engine: CrawlEngine) -> None:
    run, totals = engine.run, engine.checkpoint.totals
    session.stats.set_value("bloomdupe/round", run.round)
    extra = {"spider": session.spider}
    engine.rules.say(session.spider)
    if run.last is None:
        return
    if run.idle:
        logger.info(
            "This job was finished %(when)s, with %(pages)s and %(items)s:"
            " only new start requests are scheduled."
            ' BLOOMDUPE_START_REQUESTS = "again" begins a new round',
            {
                "when": run.finished_when,
                "pages": plural(totals.pages, "page"),
                "items": plural(totals.items, "item"),
            },
            extra=extra,
        )
    elif run.new_round:
        logger.info(
            "Round %(round)d of this job begins; the last was finished %(when)s",
            {"round": run.round, "when": run.finished_when},
            extra=extra,
        )
    else:
        logger.info(
            "Resuming crawl (%(queuesize)s scheduled); the last run %(ended)s",
            {
                "queuesize": plural(len(engine), "request"),
                "ended": ("was killed" if run.last == "open" else f"ended: {run.last}"),
            },
            extra=extra,
        )
    session.stats.set_value("bloomdupe/resumed", len(engine))

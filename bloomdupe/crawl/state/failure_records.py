"""FailureRecords: describes requests that have failed, as an engine stores them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.failure import Failure, counted_by, digest_of, named
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.reasons import FailureReason
    from bloomdupe.crawl.requests.serializer import Serializer

logger = logger_of(__name__)

BY_SCRAPY = (
    "depth", "download_latency", "is_start_request", "redirect_reasons",
    "redirect_times", "redirect_ttl", "redirect_urls", "retry_times",
)  # fmt: skip
"""Keys of ``meta`` that Scrapy sets on the way; they may differ in the next run."""


class FailureRecords:
    """Makes the records of failed requests, and their keys.

    Requests are told apart by fingerprint, and by their payloads before the first try.
    """

    def __init__(
        self, serializer: Serializer, fingerprint: Callable[[Request], bytes]
    ) -> None:
        self._serializer = serializer
        self._fingerprint = fingerprint

    def key_of(self, request: Request, first: bytes | None) -> bytes:
        """Return the key of a request, whether it has failed or not.

        ``first`` is its payload before the first try.
        """
        fingerprint = self._fingerprint(request)
        if not first:
            return digest_of(fingerprint)
        request = self._serializer.load(first)
        request.headers.pop("Referer", None)
        for name in BY_SCRAPY:
            request.meta.pop(name, None)
        request.dont_filter, request.priority = False, 0
        return digest_of(fingerprint, self._serializer.dump(request))

    def of(
        self,
        request: Request,
        reason: FailureReason,
        slot: str,
        payload: bytes | None,
        *,
        times: int = 1,
    ) -> Failure:
        """Return the record of a request that has failed; ``payload`` repeats it."""
        referer = request.headers.get("Referer")
        return Failure(
            request.url,
            *reason,
            times=times,
            time=round(time.time(), 3),
            parent=None if referer is None else referer.decode("latin-1"),
            waiting=False,
            slot=slot,
            priority=request.priority,
            payload=payload,
        )

    def untried(self, lease: Lease) -> bytes | None:
        """Return the request as the scheduler had it, but with all its retries.

        None if a second copy would double its visits, or if it could not be stored.
        """
        payload = lease.first
        if lease.comes_again or not payload:
            return None
        request = self._serializer.load(payload)
        if request.meta.pop("retry_times", None) is None:
            return payload
        return self._serializer.dump(request)


def log_failures(reasons: Mapping[str, int], job: object) -> None:
    """Log the number of failed requests at the end of a run, if there are any."""
    if reasons:
        logger.info(
            "%(failed)s failed and not succeeded since (%(reasons)s):"
            " `bloomdupe list %(job)s --failed` names them",
            {
                "failed": plural(sum(reasons.values()), "request has", "requests have"),
                "reasons": counted_by(reasons),
                "job": job,
            },
        )


def log_retried(retried: int, failed: int, other: Mapping[str, int]) -> None:
    """Log how many failed requests are retried; the ``other`` are not, by reason."""
    line = "Retried: %(retried)d of %(failed)s"
    figures: dict[str, object] = {
        "retried": retried,
        "failed": plural(failed, "failed request"),
    }
    if not other:
        logger.info(line, figures)
        return
    logger.info(
        f"{line}. Not retried: %(other)s; %(named)s",  # noqa: G004
        figures | {"other": counted_by(other), "named": named(other)},
    )

"""FailureReason: the reason for which a request failed, read from its exceptions."""

from __future__ import annotations

from typing import NamedTuple

from scrapy import exceptions
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.python import global_object_name
from twisted.internet import error as internet
from twisted.web.client import ResponseFailed

CODE = ("callback", "errback", "pipeline")
"""Reasons that lie in the project's own code."""

MOST_DETAIL = 300
"""Characters of a message that are kept."""


REASONS: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    (
        "timeout",
        (
            TimeoutError,
            internet.TimeoutError,
            internet.TCPTimedOutError,
            exceptions.DownloadTimeoutError,
        ),
    ),
    ("dns", (internet.DNSLookupError, exceptions.CannotResolveHostError)),
    (
        "connection",
        (
            ConnectionError,
            internet.ConnectError,
            internet.ConnectionClosed,
            ResponseFailed,
            exceptions.DownloadConnectionRefusedError,
            exceptions.DownloadFailedError,
        ),
    ),
)
"""Exceptions of downloads by reason; the reason of any other is ``download``."""


class FailureReason(NamedTuple):
    """The reason for which a request failed."""

    reason: str
    """One of :data:`bloomdupe.settings.FAILURE_REASONS`."""
    status: int | None
    """HTTP status of the response, if there was one."""
    detail: str
    """The exception and its message."""

    @classmethod
    def of_download(cls, error: BaseException) -> FailureReason | None:
        """Return why there is no page; None if it was intended (robots.txt)."""
        if isinstance(error, HttpError):
            status = int(error.response.status)
            return cls("status", status, f"HTTP status {status}")
        if isinstance(error, (IgnoreRequest, StopDownload)):
            return None
        for reason, kinds in REASONS:
            if isinstance(error, kinds):
                return cls(reason, None, _described(error))
        return cls("download", None, _described(error))

    @classmethod
    def of_code(
        cls, reason: str, error: BaseException, response: object
    ) -> FailureReason:
        """Describe an exception of a callback or pipeline."""
        status = response.status if isinstance(response, Response) else None
        return cls(reason, status, _described(error))

    def and_then(self, error: BaseException) -> FailureReason:
        """Add that the errback, which was told of this, has raised something else."""
        detail = f"{_described(error)}; told of {self.detail}"[:MOST_DETAIL]
        return FailureReason("errback", self.status, detail)


def _described(error: BaseException) -> str:
    text = f"{global_object_name(type(error)).removeprefix('builtins.')}: {error}"
    return text.encode(errors="replace").decode()[:MOST_DETAIL]

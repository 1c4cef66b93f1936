"""The sample site over HTTP."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Protocol

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from crawler.sample_site.graph import SampleSite, canonical_path

if TYPE_CHECKING:
    from pathlib import Path

    from twisted.internet.defer import Deferred
    from twisted.web.http import Request as HTTPRequest

__all__ = ["SampleServer", "open_port"]


def open_port(port: int) -> socket.socket:
    """Return a socket that listens on *port* of 127.0.0.1; 0: any free port.

    It listens at once, so that no other process can use the port. A connection left
    over by a killed predecessor is no obstacle. Raises :exc:`OSError` if the port is in
    use.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


class _Request(Protocol):
    """The part of ``twisted.web.server.Request`` used here; its methods are untyped."""

    method: bytes
    uri: bytes

    def getHeader(self, key: str) -> str | None: ...  # noqa: N802 - a name of Twisted
    def setHeader(self, name: str, value: str) -> None: ...  # noqa: N802 - a name of Twisted
    def setResponseCode(self, code: int) -> None: ...  # noqa: N802 - a name of Twisted
    def notifyFinish(self) -> Deferred[None]: ...  # noqa: N802 - a name of Twisted
    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...


class _Site(Site):
    noisy = False

    def log(self, request: HTTPRequest) -> None:
        """Do nothing: the server's own log has all requests."""


class SampleServer(Resource):
    """Serve a :class:`SampleSite`, on the reactor that is installed.

    With a *log*, a line ``STATUS METHOD URI`` is appended to it for each request before
    the answer is sent; the status is 499 if the client has gone by then. The log is
    also the server's memory: it shows which flaky pages have had their failure, so that
    the failure does not come again after a restart. *delay*: seconds before each
    answer.
    """

    isLeaf = True  # noqa: N815 - Twisted's name: all paths are ours

    def __init__(
        self, site: SampleSite, log: Path | None = None, delay: float = 0
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.site = site
        self._delay = delay
        self._failed: set[str] = set()
        self._log = None
        self._port: Any = None
        if log is not None:
            # Unbuffered: when write() returns, the kernel has the whole line.
            self._log = log.open("a+b", buffering=0)
            self._log.seek(0)
            for line in self._log.read().decode("ascii", "replace").splitlines():
                if line.startswith("500 "):
                    self._failed.add(canonical_path(line.split(" ", 2)[2]))

    def listen(self, listening: socket.socket) -> None:
        """Start to answer on a socket from :func:`open_port`; it can be closed then."""
        factory = _Site(self)  # type: ignore[no-untyped-call]
        listening.setblocking(False)
        self._port = _reactor().adoptStreamPort(
            listening.fileno(), socket.AF_INET, factory
        )

    def run(self, listening: socket.socket) -> None:
        """Answer on a socket from :func:`open_port` until the process is ended."""
        self.listen(listening)
        _reactor().run()

    def stop(self) -> None:
        """Stop listening."""
        if self._port is not None:
            self._port.stopListening()
        if self._log is not None:
            self._log.close()

    def render(self, request: _Request) -> int:
        """Answer now or, with a delay, later; called by Twisted."""
        if self._delay:
            gone: list[object] = []
            request.notifyFinish().addErrback(gone.append)
            _reactor().callLater(self._delay, self._answer_late, request, gone)
        else:
            self._answer(request)
        return NOT_DONE_YET

    def _answer_late(self, request: _Request, gone: list[object]) -> None:
        if gone:
            self._write_log(499, request)
        else:
            self._answer(request)

    def _answer(self, request: _Request) -> None:
        uri = request.uri.decode("ascii", "backslashreplace")
        host = (request.getHeader("host") or "localhost").lower()
        answer = self.site.answer(uri)
        status = answer.status
        body = answer.body(host)
        if answer.flaky and (path := canonical_path(uri)) not in self._failed:
            self._failed.add(path)
            status, body = 500, b"Try again.\n"
        if answer.location is not None:
            request.setHeader("Location", f"http://{host}{answer.location}")
        request.setHeader("Content-Type", answer.content_type)
        request.setResponseCode(status)
        self._write_log(status, request)
        request.write(body)
        request.finish()

    def _write_log(self, status: int, request: _Request) -> None:
        if self._log is not None:
            self._log.write(b"%d %b %b\n" % (status, request.method, request.uri))


def _reactor() -> Any:
    # Imported late, because the settings of a crawl choose the reactor.
    from twisted.internet import reactor

    return reactor

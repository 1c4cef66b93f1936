"""The sample site as part of a crawl: served in its process, at its job's address."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from crawler.sample_site.graph import SampleSite
from crawler.sample_site.server import SampleServer, open_port

if TYPE_CHECKING:
    import socket
    from pathlib import Path

__all__ = ["SampleJob"]

_PORT_FILE = "sample-site.port"
_PART_FILE = "sample-site.port.part"
_LOG_FILE = "sample-site.log"
# Below the ports that Linux gives to outgoing connections (32768 and up): such a
# connection could hold the job's port when the job goes on.
_PORTS = range(20000, 32000)


class SampleJob:
    """The sample site at an address that is the same in all runs of a job.

    In the job's folder: ``sample-site.port``, the port in decimal digits and a newline,
    written once; ``sample-site.log``, the log of a :class:`SampleServer`.
    """

    def __init__(self, listening: socket.socket, folder: Path | None) -> None:
        self._listening = listening
        self._log = folder / _LOG_FILE if folder is not None else None
        self._server: SampleServer | None = None
        self.url = f"http://localhost:{listening.getsockname()[1]}/"

    @classmethod
    def claim(cls, folder: Path | None) -> SampleJob:
        """Listen on the job's port; for a new job choose a free port and store it.

        Raises :exc:`scrapy.exceptions.UsageError` if the port is in use, the file does
        not hold a port, or the folder belongs to another job.
        """
        if folder is None:
            return cls(_open_any(), folder)
        file = folder / _PORT_FILE
        if file.exists():
            return cls(_open_noted(file), folder)
        if folder.exists() and {path.name for path in folder.iterdir()} - {_PART_FILE}:
            raise UsageError(
                f"JOBDIR {folder} holds another job, not one of the sample site (there "
                f"is no {_PORT_FILE} in it): give that job's -a url=URL, or another "
                "JOBDIR",
                print_help=False,
            )
        listening = _open_any()
        _note(file, listening.getsockname()[1])
        return cls(listening, folder)

    def serve(self) -> None:
        """Begin to answer; the reactor must be installed."""
        self._server = SampleServer(SampleSite(), self._log)
        self._server.listen(self._listening)

    def stop(self) -> None:
        """Stop listening."""
        self._listening.close()
        if self._server is not None:
            self._server.stop()


def _open_any() -> socket.socket:
    for port in random.sample(_PORTS, 100):
        try:
            return open_port(port)
        except OSError:
            continue
    return open_port(0)


def _open_noted(file: Path) -> socket.socket:
    text = file.read_text("ascii", "replace").strip()
    if not (text.isdecimal() and 0 < int(text) < 2**16):
        raise UsageError(
            f"{file} is damaged: it holds {text[:20]!r} instead of the port of the "
            f"sample site: write the port there that the URLs in {file.parent} have, "
            f"or remove {file.parent} to crawl the sample site anew",
            print_help=False,
        )
    try:
        return open_port(int(text))
    except OSError as error:
        raise UsageError(
            f"cannot serve the sample site on port {text}, which {file} notes: "
            f"{error.strerror}: perhaps this job is running already; end the program "
            f"that has the port, or remove {file.parent} to crawl the sample site anew",
            print_help=False,
        ) from None


def _note(file: Path, port: int) -> None:
    """Write the port durably and atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(_PART_FILE)
    with part.open("w", encoding="ascii") as stream:
        stream.write(f"{port}\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

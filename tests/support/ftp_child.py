"""An FTP server, as a process of its own: it prints a line for each event.

    python ftp_child.py FOLDER PORT BYTES_A_SECOND

The first line is ``ready``; then ``begun``, ``complete NAME`` and ``broken NAME``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, ThrottledDTPHandler
from pyftpdlib.servers import FTPServer


def say(*words: object) -> None:
    print(*words, flush=True)


class Transfer(ThrottledDTPHandler):  # type: ignore[misc]
    """Takes so many bytes a second at most."""

    read_limit = int(sys.argv[3])

    def recv(self, size: int) -> bytes:
        data: bytes = super().recv(size)
        if data:
            say("begun")
        return data


class Handler(FTPHandler):  # type: ignore[misc]
    """Prints a line for each event."""

    dtp_handler = Transfer

    def on_file_received(self, file: str) -> None:
        say("complete", Path(file).name)

    def on_incomplete_file_received(self, file: str) -> None:
        say("broken", Path(file).name)


def main() -> None:
    Handler.authorizer = DummyAuthorizer()
    Handler.authorizer.add_user("user", "hidden7", sys.argv[1], perm="elradfmw")
    server = FTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    say("ready")
    server.serve_forever()


main()

"""Servers to which feeds are delivered: FTP, and S3."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from support.shared_data import needs_package

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "hidden7"  # noqa: S105 - of a server on loopback


def ftp_uri(port: int) -> str:
    return f"ftp://user:{PASSWORD}@127.0.0.1:{port}"


class Ftp:
    """An FTP server, and its output."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self._port = port
        self.uri = ftp_uri(port)
        self.said: list[str] = []
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip()

    def wait_for(self, said: str) -> None:
        """Wait until the server says this."""
        while (line := self._line()) != said:
            assert line, f"the server never said {said}"
            self.said.append(line)

    def stop(self) -> None:
        # It does one thing after the other: first it says what it has got.
        with socket.create_connection(("127.0.0.1", self._port)) as last:
            last.recv(1)
        self._process.kill()
        output, _ = self._process.communicate()
        self.said += output.splitlines()

    @property
    def complete(self) -> list[str]:
        """Files that it has got, when it was stopped."""
        words = [line.split(" ", 1) for line in self.said]
        return [word[1] for word in words if word[0] == "complete"]


@contextmanager
def ftp_server(folder: Path, port: int, *, limit: int = 0) -> Iterator[Ftp]:
    """Serve a folder; takes ``limit`` bytes a second at most, if that is not 0."""
    needs_package("pyftpdlib")
    arguments = [str(Path(__file__).with_name("ftp_child.py")), str(folder)]
    ftp = Ftp(
        subprocess.Popen(
            [sys.executable, *arguments, str(port), str(limit)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ),
        port,
    )
    try:
        yield ftp
    finally:
        ftp.stop()


@contextmanager
def s3_server() -> Iterator[tuple[str, Any]]:
    """Serve S3; yields the endpoint, and a client with a bucket ``bucket``."""
    needs_package("moto", "boto3")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",  # noqa: S106 - of a server on loopback
    )
    # The servers of a process share their objects.
    with urlopen(f"{endpoint}/moto-api/reset", data=b""):  # noqa: S310 - on loopback
        pass
    client.create_bucket(Bucket="bucket")
    try:
        yield endpoint, client
    finally:
        client.close()
        server.stop()

"""Real web sites on nginx; its log judges a crawl."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support.harness import wait_for
from support.ports import kept_port
from support.shared_data import SHARED, needs, needs_program

if TYPE_CHECKING:
    from collections.abc import Iterator

SITES = SHARED / "sites"


def answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def nginx(name: str) -> Iterator[tuple[str, Path]]:
    """Serve a site; yield its start URL and its log."""
    needs(SITES, "needs the shared web sites")
    needs_program("nginx", "nginx-light")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # nginx reads it as another user
        subprocess.run([SITES / "site", "get", name, folder], check=False)
        needs(folder / name, "needs a site that could not be downloaded")
        with serving(name, folder) as url:
            yield url, folder / f"{name}.log"


@contextmanager
def serving(name: str, folder: Path) -> Iterator[str]:
    port = kept_port()
    with subprocess.Popen(
        [SITES / "site", "serve", name, folder, str(port)],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            wait_for(lambda: answers(port), server)
            yield f"http://127.0.0.1:{port}/index.html"
        finally:
            server.terminate()

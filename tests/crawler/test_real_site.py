"""A real web site on nginx: interrupted, resumed, and judged by nginx's log."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness import wait_for
from shared_data import SHARED, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from harness import Project

SITES = SHARED / "sites"


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def nginx(name: str) -> Iterator[tuple[str, Path]]:
    """Serve a site; yield its start URL and its log."""
    needs(SITES, "needs the shared web sites")
    needs(Path(shutil.which("nginx") or "nginx"), "needs nginx")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # nginx reads it as another user
        subprocess.run([SITES / "site", "get", name, folder], check=False)
        needs(folder / name, "needs a site that could not be downloaded")
        with serving(name, folder) as url:
            yield url, folder / f"{name}.log"


@contextmanager
def serving(name: str, folder: Path) -> Iterator[str]:
    port = free_port()
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


def test_a_real_site_interrupted_in_the_middle(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    with nginx("python3") as (url, log):

        def requests() -> int:
            return len(log.read_text().splitlines())

        process = project.start("-a", f"url={url}")
        wait_for(lambda: requests() > 528 // 2, process)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert requests() < 528 * 0.9, "it stopped too late to tell anything"
        code, output = project.crawl("-a", f"url={url}")
        assert code == 0, output
        capfd.readouterr()
        oracle = SITES / "python3.oracle.txt.xz"
        judge = [sys.executable, SITES / "compare.py", oracle, log]
        assert subprocess.run(judge, check=False).returncode == 0
    verdict = capfd.readouterr().out
    assert "oracle 528 requested 528 lost 0 extra 0 refetched 0" in verdict

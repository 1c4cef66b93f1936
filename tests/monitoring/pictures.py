"""Writes the pictures in the document on monitoring, of a job. Not run by pytest.

``python tests/monitoring/pictures.py top JOBDIR`` while a crawl runs; then the same
with ``report``, which needs Chromium. Needs rich and Pillow.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from bloomdupe.cli.main import main
from bloomdupe.jobs.job_on_disk import JobOnDisk
from bloomdupe.jobs.reader import JobReader
from bloomdupe.monitoring.top import KEYS, screen

ROOM = Path(__file__).parents[2] / "bloomdupe" / "monitoring"
COLOURS = [
    (31, 35, 40), (207, 34, 46), (26, 127, 55), (154, 103, 0),
    (9, 105, 218), (130, 80, 223), (11, 114, 133), (110, 119, 129),
]  # fmt: skip
LIGHT = TerminalTheme((255, 255, 255), COLOURS[0], COLOURS, COLOURS)


def write_top(job: Path) -> None:
    """Draw the display of ``bloomdupe top``, without fonts from elsewhere."""
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    for name, theme in (("top", SVG_EXPORT_THEME), ("top-light", LIGHT)):
        console = Console(
            record=True, width=78, height=24, file=io.StringIO(), force_terminal=True
        )
        view = JobReader(JobOnDisk(str(job))).read()
        lines = [*screen(view, (78, 24), coloured=True), KEYS]
        console.print(Text.from_ansi("\n".join(lines)))
        console.save_svg(
            str(ROOM / f"{name}.svg"),
            title=f"bloomdupe top {job}",
            theme=theme,
            code_format=form.replace("rgba(255,255,255,0.35)", "rgba(128,128,128,0.4)"),
        )


def write_report(job: Path) -> None:
    """Photograph the upper part of the page, in few colours."""
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder, "report.html"), Path(folder, "report.png")
        main(["report", str(job), "-o", str(page)])
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars"]
        command += ["--window-size=1250,970", f"--screenshot={picture}"]
        subprocess.run([*command, page.as_uri()], check=True)
        with Image.open(picture) as image:
            small = image.convert("RGB").resize((1000, 776), Image.Resampling.LANCZOS)
        few = small.quantize(255, Image.Quantize.MAXCOVERAGE)
        few.save(ROOM / "report.png", optimize=True)


if __name__ == "__main__":
    {"top": write_top, "report": write_report}[sys.argv[1]](Path(sys.argv[2]))

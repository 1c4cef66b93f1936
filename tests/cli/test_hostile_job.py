"""Verbs that print, on a job in which a site has named everything."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import pytest
from scrapy import Request
from support.jobs import IDENTITY, Verb
from support.monitored_jobs import NOW, add_failures, add_points, point
from support.report_page import report_of

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.failures import Failure
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.printable import logger_of, printable

NASTY = "\x1b[2J\x07\x00\r\n\x7f\x85\x9b31m\u2028\u202e\u2066\ud800"
"""ESC, BEL, NUL, line ends, DEL, NEL, CSI of C1, bidirectional, half a surrogate."""
FORMULA = "$a_{b$&<b>"
HOST = f"{FORMULA}{NASTY}"
URL = f"http://{FORMULA}{NASTY.replace(chr(0xD800), '')}.example/x"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a job with a hostile spider, slots, URLs, callbacks and failures."""
    failure = Failure(
        URL, HOST, None, HOST, 1, NOW, URL, False, HOST, 0, b"\x91"
    )  # fmt: skip
    identity = {**IDENTITY, "spider": f"site{NASTY}"}
    with BloomFilter.open(tmp_path / "job/bloomdupe", 1000, identity=identity) as seen:
        frontier = Frontier(seen)
        frontier.push(HOST, 0, b"\x91" + msgpack.packb(URL))
        frontier.push(HOST, 0, b"\x95" + HOST.encode(errors="surrogatepass"))
        seen.notes["run"] = f"stopped{NASTY}"
        seen.notes["blocked"] = [{"slot": HOST}]
        frontier.checkpoint()
    add_failures(tmp_path / "job", [failure])
    add_points(tmp_path / "job", [point(0.0), point(5.0)])
    return tmp_path / "job"


VERBS = [
    ["info", "job"],
    ["list", "job"],
    ["list", "job", "--failed"],
    ["top", "job"],
    ["report", "job", "-o", HOST.replace("\0", "").replace("\ud800", "")],
    ["check", "job", URL, f"{HOST}nothing"],
    ["add", "job", f"{HOST}nothing"],
    ["drop", "job", "--slot", f"{HOST}nothing"],
    ["block", "job", "--slot", HOST],
    ["import", "job", "lines", f"--spider{NASTY}"],
    ["verify", "job"],
    ["info", f"nowhere{NASTY.replace(chr(0), '').replace(chr(0xD800), '')}"],
    [f"verb{NASTY}"],
]


def visible(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize("arguments", VERBS, ids=lambda given: given[0][:6])
def test_no_control_character_is_printed(
    verb: Verb, job: Path, capsys: pytest.CaptureFixture[str],
    arguments: list[str], json_: bool,
) -> None:  # fmt: skip
    (job.parent / "lines").write_text(f"{URL}\nnothing{NASTY[:5]}", "utf-8")
    try:
        answer = verb(*arguments, *["--json"] * json_)
        out, err = answer.out, answer.err
    except SystemExit:  # of the arguments' parser
        out, err = capsys.readouterr()
    assert out or err
    assert visible(out)
    assert visible(err)
    if json_ and out and arguments[0] != "list":
        assert json.loads(out)


def test_hostile_names_are_shown_in_a_harmless_form(verb: Verb, job: Path) -> None:
    """The control: these verbs do show names that a site has chosen."""
    escaped = printable(NASTY)
    assert escaped.startswith(r"\x1b[2J\x07\x00\r\n\x7f\x85\x9b31m\u2028\u202e")
    for arguments in (["info"], ["list"], ["list", "--failed"]):
        assert escaped in verb(arguments[0], job, *arguments[1:]).out
    assert r"\x1b" in verb("top", job).out
    listed = verb("list", job, "--failed", "--json").out
    assert json.loads(listed)["slot"] == HOST
    assert verb("requeue", job, "--failed").out == "1 pending now\n"  # though damaged


def test_a_name_is_neither_a_formula_nor_markup(verb: Verb, job: Path) -> None:
    page = report_of(verb, job)
    shown = Path("report.html").read_text("utf-8")
    assert visible(shown)
    assert "<b>\\" not in shown
    assert any(text.startswith(f"{FORMULA}\\x1b") for text in page.texts)


def test_log_lines_stay_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logger = logger_of("bloomdupe.tests")
    logger.info(
        "%(request)s of %(slot)r",
        {"request": Request("http://a\x1b\x9b\u202e.example/"), "slot": HOST},
    )
    logger.info("%d of %s", 3, "many")
    first, second = caplog.records
    assert first.getMessage().isprintable()
    assert r"http://a\x1b\x9b\u202e.example/" in first.getMessage()
    assert second.args == (3, "many")  # as it was

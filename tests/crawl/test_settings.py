"""Settings that cannot be are refused by name, and it is said what is expected."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from bloomdupe import Addon
from bloomdupe.errors import SettingError
from bloomdupe.settings import JobSettings

BAD: list[tuple[str, list[object], str]] = [
    ("BLOOMDUPE_CHECKPOINT_INTERVAL", ["0"], "expected a positive number of seconds"),
    ("BLOOMDUPE_EXACT", ["("], ": '\\(' is not a regular expression"),
    ("BLOOMDUPE_EXPECTED_URLS", ["0", "-5", "many", "nan"], "expected a whole number"),
    ("BLOOMDUPE_FPP", ["0", "1", "abc"], "expected a probability"),
    ("BLOOMDUPE_MAX_FAILURES", [-1, "many", 1.5, True], "expected"),
    ("BLOOMDUPE_MAX_PAGES_PER_SLOT", [0, -1, 1.5, "many", True], "expected"),
    ("BLOOMDUPE_METRICS", [65536, -1, True, "http", "1.1.1.1", ":"], "expected"),
    ("BLOOMDUPE_METRICS", ["::1:x", "1.1.1.1:"], "expected"),
    ("BLOOMDUPE_PROGRESS_INTERVAL", [-1, "often", type(None), math.nan], "expected"),
    (
        "BLOOMDUPE_RETRY_BACKOFF",
        ["1,2", (0, 2, 3), (1, 0.5, 3), (2, 2, 1), "a,b,c", 5, (1, 2, math.inf)],
        "three numbers",
    ),
    ("BLOOMDUPE_RETRY_FAILED", ["often", "50", "timeout;dns", 2, {"a": 1}], "timeout"),
    ("BLOOMDUPE_REVISIT", ["often"], "expected a list of pairs"),
    # Of a value of many parts, the message shows the wrong part.
    ("BLOOMDUPE_REVISIT", [[".*"]], ": '\\.\\*' is no pair"),
    ("BLOOMDUPE_REVISIT", [[("(", 5)]], ": '\\(' is not a regular expression"),
    ("BLOOMDUPE_REVISIT", [[(".*", 0)]], " = 0: expected a positive number"),
    ("BLOOMDUPE_REVISIT", [[(".*", "daily")]], " = 'daily': expected a positive"),
    ("BLOOMDUPE_STAY", ["yes", 2, "forever"], "expected True or False"),
    ("BLOOMDUPE_WAIT", ["-1", -1, "soon", "nan", "inf"], "expected no negative"),
    ("JOBDIR", [__file__, f"{__file__}/job"], "is no directory in which"),
]


NONE_BY_DEFAULT = ("METRICS", "RETRY_BACKOFF", "WAIT", "REDIS_URL")


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("METRICS", 9410, ("127.0.0.1", 9410)),
        ("METRICS", "0", ("127.0.0.1", 0)),
        ("METRICS", "10.1.1.1:9410", ("10.1.1.1", 9410)),
        ("METRICS", "[::1]:9410", ("::1", 9410)),
        *((name, value, None) for name in NONE_BY_DEFAULT for value in ("", "None")),
    ],
)
def test_a_value_may_be_a_text(name: str, value: object, found: object) -> None:
    settings = JobSettings.read(Settings({f"BLOOMDUPE_{name}": value}))
    assert getattr(settings, name.lower()) == found


HUGE = 10**5_000
NUMBERS = (
    "BLOOMDUPE_EXPECTED_URLS",
    "BLOOMDUPE_REDIS_LEASE",
    "BLOOMDUPE_RETRY_BACKOFF",
    "BLOOMDUPE_RETRY_FAILED",
    "BLOOMDUPE_REVISIT",
    "BLOOMDUPE_STAY",
    "BLOOMDUPE_WAIT",
)
TOO_MUCH: list[tuple[str, object]] = [
    *((name, value) for name in NUMBERS for value in (HUGE, "9" * 5_000)),
    ("BLOOMDUPE_EXACT", ["/news/", b"/shop/"]),
    ("BLOOMDUPE_EXACT", ["a{99999999999}"]),
    ("BLOOMDUPE_EXPECTED_URLS", 1e308),
    ("BLOOMDUPE_RETRY_BACKOFF", (1, HUGE, 300)),
    ("BLOOMDUPE_REVISIT", [(".*", 1e15)]),
    ("BLOOMDUPE_REVISIT", [(b".*", 60)]),
    ("BLOOMDUPE_REVISIT", '[[".*", 1e15]]'),
    ("BLOOMDUPE_REVISIT", "[" * 100_000),
    ("JOBDIR", "x" * 300),
]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *((name, value, expected) for name, some, expected in BAD for value in some),
        *((name, value, " = |: ") for name, value in TOO_MUCH),
    ],
    ids=lambda _: "",
)
def test_a_bad_value_is_refused_in_a_line(
    name: str, value: object, expected: str
) -> None:
    if not expected.startswith((" = ", ": ")):
        expected = f" = {re.escape(repr(value))}.*{expected}"
    with pytest.raises(SettingError, match=f"^{name}({expected}).*$") as refused:
        JobSettings.read(Settings({name: value}))
    said = str(refused.value)
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, True),
        ("1", True),
        (r"/a$", [r"/a$"]),
        ('["/a$", "/c"]', ["/a$", "/c"]),
        (["/a$"], ["/a$"]),
    ],
)
def test_urls_are_exact(value: object, found: object) -> None:
    exact = JobSettings.read(Settings({"BLOOMDUPE_EXACT": value})).exact
    assert exact.value == found
    assert exact.match("https://a.example/a")
    assert exact.match("https://a.example/b") == (found is True)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ([Path("a/%(name)s.csv"), "b.csv"], ["a/%(name)s.csv", "b.csv"]),
        *(2 * [same] for same in ([Path("/c.csv")], [Path("d:e")], [Path("f"), "f"])),
    ],
)
def test_a_feed_at_a_relative_path_has_the_same_name_in_every_folder(
    keys: list[object], named: list[object]
) -> None:
    """Two with one file stay two, which are refused later."""
    settings = Settings({"FEEDS": {key: {"indent": n} for n, key in enumerate(keys)}})
    Addon(Crawler(Spider)).update_settings(settings)
    found = {key: given["indent"] for key, given in settings.getdict("FEEDS").items()}
    assert found == {key: n for n, key in enumerate(named)}

"""Every verb, as a user meets it who knows nothing but ``--help``."""

from __future__ import annotations

import shlex

import pytest

from bloomdupe.cli import main as cli


@pytest.mark.parametrize("name", cli.VERBS)
def test_help_has_an_example_that_can_be_called(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    example = cli.VERBS[name].example
    assert f"Example: bloomdupe {' '.join(example.split())}" in out
    assert "--json" in out
    options = cli.build_parser().parse_args(shlex.split(example))
    assert options.verb == name


def test_options_may_come_between_a_store_and_urls() -> None:
    words = ["check", "job", "--json", "https://a.example/", "--from", "-"]
    options = cli.build_parser().parse_args([*words, "https://b.example/"])
    assert options.urls == ["https://a.example/", "https://b.example/"]
    assert options.store == "job"

"""Controls take out guards that exist: else they would prove nothing."""

from __future__ import annotations

import pytest
from spiders.taken_out import FENCE, SETTLING

from bloomdupe.redis.server import _source


@pytest.mark.parametrize("guards", [FENCE, SETTLING], ids=["fence", "settling"])
def test_scripts_have_the_guards_that_controls_take_out(
    guards: dict[str, dict[str, str]],
) -> None:
    for name, texts in guards.items():
        assert [text for text in texts if text not in _source(name)] == [], name

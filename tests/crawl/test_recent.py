"""A filter that forgets takes no more memory, however much is added to it."""

from __future__ import annotations

from bloomdupe.filter.recent import RecentFilter

FPP = 1e-6


def test_a_full_filter_begins_anew() -> None:
    recent = RecentFilter(100, FPP)
    for number in range(1_000):
        assert recent.add(b"%d" % number)
        assert recent.contains(b"%d" % number)
        assert not recent.add(b"%d" % number)
        assert 0 < len(recent) <= 100
    info = recent.info()
    assert len(info.layers) == 1
    assert info.current_fpp <= FPP
    assert not recent.contains(b"0")

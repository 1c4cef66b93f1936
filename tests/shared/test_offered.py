"""What a worker has offered takes no more memory, however large the crawl is."""

from __future__ import annotations

from bloomdupe.shared.offered import MOST, Offered

FPP = 1e-6


def test_a_full_one_begins_anew() -> None:
    offered = Offered.of(100, FPP)
    for number in range(1_000):
        assert offered.add(b"%d" % number)
        assert offered.contains(b"%d" % number)
        assert not offered.add(b"%d" % number)
        assert 0 < len(offered) <= 100
    info = offered.info()
    assert len(info.layers) == 1
    assert info.current_fpp <= FPP
    assert not offered.contains(b"0")


def test_a_crawl_of_ten_thousand_million_takes_the_memory_of_ten_million() -> None:
    assert Offered.of(10**10, FPP).parameters.capacity == MOST


def test_a_small_crawl_has_a_small_one() -> None:
    assert Offered.of(1_000, FPP).parameters.capacity == 1_000

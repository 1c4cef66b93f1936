from __future__ import annotations

import math

import pytest

from bloomdupe.filter import sizing


@pytest.mark.parametrize("capacity", [1, 1000, 65_344, 10**6, 10**9])
@pytest.mark.parametrize("fpp", [0.5, 1e-2, 1e-6, 1e-12])
def test_a_layer_is_the_smallest_that_keeps_its_promise(
    capacity: int, fpp: float
) -> None:
    hashes = sizing.choose_hashes(fpp)
    optimal = sizing.optimal_bits_per_key(fpp)
    assert sizing.bits_per_key(fpp, hashes) <= 1.05 * optimal
    assert hashes == 1 or sizing.bits_per_key(fpp, hashes - 1) > 1.05 * optimal
    shape = sizing.geometry(capacity, fpp, hashes)
    assert shape.rate(capacity) <= fpp
    if shape.pages > 1:
        smaller = shape._replace(pages=shape.pages - 1)
        assert smaller.rate(capacity) > fpp


def test_the_rate_equals_the_textbook_sum_over_binomial_pages() -> None:
    hashes, pages, keys = 7, 5, 20_000
    fill = [
        1 - (1 - 1 / sizing.POSITIONS) ** (hashes * count) for count in range(keys + 1)
    ]
    edge = 1 - sizing.PAGE_BITS / sizing.POSITIONS
    exact = 0.0
    for count in range(keys + 1):
        log_share = (
            math.lgamma(keys + 1)
            - math.lgamma(count + 1)
            - math.lgamma(keys - count + 1)
            + count * math.log(1 / pages)
            + (keys - count) * math.log(1 - 1 / pages)
        )
        if log_share > -50:
            rate = ((1 - edge) * fill[count] + edge) ** hashes
            exact += math.exp(log_share) * rate
    calculated = sizing.false_positive_rate(hashes, pages, keys)
    assert calculated == pytest.approx(exact, rel=1e-3)


def test_the_layers_of_a_growing_filter_never_exceed_its_promise() -> None:
    fpp = 1e-3
    shares = [sizing.layer_geometry(1000, fpp, number).fpp for number in range(60)]
    assert sum(shares) <= fpp
    capacities = [
        sizing.layer_geometry(1000, fpp, number).capacity for number in range(4)
    ]
    assert capacities == [1000, 2000, 4000, 8000]


def test_affordable_fpp_uses_up_the_bits_and_no_more() -> None:
    fpp = sizing.affordable_fpp(10_000_000, 8)
    assert fpp is not None
    assert 7.95 < sizing.layer_geometry(10_000_000, fpp, 0).bits_per_key <= 8
    assert sizing.affordable_fpp(1000, 8) is None  # one page alone takes 65 bits

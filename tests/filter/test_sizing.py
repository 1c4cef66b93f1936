from __future__ import annotations

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
    if shape.blocks > 1:
        smaller = shape._replace(blocks=shape.blocks - 1)
        assert smaller.rate(capacity) > fpp


def test_the_layers_of_a_growing_filter_never_exceed_its_promise() -> None:
    fpp = 1e-3
    shares = [sizing.layer_geometry(1000, fpp, number).fpp for number in range(60)]
    assert sum(shares) <= fpp
    capacities = [
        sizing.layer_geometry(1000, fpp, number).capacity for number in range(4)
    ]
    assert capacities == [1000, 2000, 4000, 8000]

"""The filter on Redis beside the one on LMDB: same verbs, same answers, same bits.

The contract of all filters is tested in ``tests/filter/test_bloom.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.redis_server import RedisServer, blocks
from support.repetition import repeated

from bloomdupe import BloomFilter
from bloomdupe.store.redis.address import Address

KEY = bytes(16)
BLOCK_BYTES = 8168


def bytes_of(seen: BloomFilter) -> dict[tuple[int, int], bytes]:
    """Return the blocks that are not empty, by layer and number."""
    return {
        (layer.number, number): value
        for layer in seen.layers
        for number, block in enumerate(layer.all_blocks())
        if any(value := block.tobytes()[:BLOCK_BYTES])
    }


@pytest.mark.parametrize("fpp", repeated([1e-6, 0.5, 1e-2, 1e-12], first=2))
def test_the_same_bits_as_on_lmdb(
    redis_server: RedisServer, url: str, tmp_path: Path, fpp: float
) -> None:
    """With one position a key, some lie past the end of a block, where all is set."""
    added = [f"{number % 7_000}" for number in range(9_000)]
    with (
        BloomFilter.open(url, 1_500, fpp, key=KEY) as shared,
        BloomFilter.open(tmp_path / "seen", 1_500, fpp, key=KEY) as local,
        redis_server.client() as judge,
    ):
        assert shared.add_many(added) == [local.add(key) for key in added]
        assert len(shared) == len(local)
        assert len(shared.info().layers) == local.layer_count >= 2
        assert blocks(judge, Address.of(url).head) == bytes_of(local)
        asked = [f"out {number}" for number in range(2_000)]
        assert shared.contains_many(asked) == [key in local for key in asked]
        for here, there in zip(shared.info().layers, local.info().layers, strict=True):
            assert here.items() <= there.items()

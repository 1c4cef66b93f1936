"""Sizing: how many bits, hashes and blocks hold n keys at probability p.

Pure arithmetic, no I/O. The symbols are those of the literature: *n* keys
(``capacity``), *p* false-positive probability (``fpp``), *m* bits, *k* hashes
(bit positions per key).

The classic filter (B. H. Bloom, CACM 13(7), 1970; Broder and Mitzenmacher,
"Network applications of Bloom filters", 2004) needs ``m = -n ln p / (ln 2)**2``
bits and ``k = m/n ln 2 = -log2 p`` hashes. Ours is *blocked* (Putze, Sanders and
Singler, 2007): a key picks one block, and all its k bits are in that block. Blocks
do not get exactly n/blocks keys each but a binomially distributed number, which
raises the false-positive rate a little; :func:`false_positive_rate` accounts for
it, and :func:`geometry` adds blocks until the promised p holds.

A position is a 16-bit number, but a block has room for :data:`BLOCK_BITS` bits
only. The few positions beyond it (192 of 65,536) count as always set. That costs
0.02 bits a key and saves a comparison per position; it is accounted for, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_BITS = 8 * 8168
"""Bits in a block: two LMDB overflow pages (8,176 bytes) less an 8-byte checksum."""

POSITIONS = 1 << 16
"""Values of one position, a 16-bit field of the digest."""

MOST_KEYS = 1e20
"""More than any memory holds, and few enough to calculate with."""

MIN_FPP = 1e-12
MAX_FPP = 0.5

BITS_TOLERANCE = 1.05
"""How much more than the optimal number of bits fewer hashes may cost.

Each hash costs time in every look-up, and near the optimum the curve is flat:
5 % more bits save a quarter of the hashes.
"""

GROWTH_BITS_TOLERANCE = 1.25
"""The same for layers added by growth, whose smaller fpp asks for many hashes."""

NEGLIGIBLE = 1e-4
"""Rates below this change the number of keys taken too little to matter."""

ALL_BUT_CERTAIN = 0.999999
"""An overfull filter takes one key in a million at least, so that sums stay finite."""

FIRST_SHARE = 0.9
"""Share of p that the first layer may use; growth divides the rest."""

TIGHTENING = 0.5
"""Ratio r by which the share of each further layer shrinks (Almeida et al. 2007)."""

GROWTH_FACTOR = 2
"""Ratio s of the capacities of successive layers (Almeida et al. 2007)."""

NORMAL = [(step / 4, math.exp(-((step / 4) ** 2) / 2)) for step in range(-20, 21)]
"""41 points within five standard deviations, and their weights."""
WEIGHTS = sum(weight for _, weight in NORMAL)


def check_integer(
    value: object, name: str, least: int, most: float, expected: str
) -> int:
    """Return ``value`` as a whole number in a range, or raise :class:`SettingError`."""
    number = _number(value)
    if number is None or not number.is_integer() or not least <= number <= most:
        raise SettingError.of(name, value, expected)
    # Not via float: whole numbers above 2**53 stay exact.
    return value if isinstance(value, int) else int(number)


def check_capacity(value: object, name: str = "capacity") -> int:
    """Return ``value`` as a number of keys, or raise :class:`SettingError`.

    ``name`` is the user's name for it: the parameter or the setting.
    """
    expected = f"a whole number of keys from 1 to {MOST_KEYS:g}, such as 10_000_000"
    return check_integer(value, name, 1, MOST_KEYS, expected)


def check_fpp(value: object, name: str = "fpp") -> float:
    """Return ``value`` as a probability, or raise :class:`SettingError`."""
    number = _number(value)
    if number is None or not MIN_FPP <= number <= MAX_FPP:
        raise SettingError.of(
            name, value, f"a probability from {MIN_FPP:g} to {MAX_FPP:g}, such as 1e-6"
        )
    return number


def _number(value: object) -> float | None:
    """Read a number from a number or a text (``-s NAME=VALUE`` gives text)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def optimal_bits_per_key(fpp: float) -> float:
    """m/n of the classic filter: ``-ln p / (ln 2)**2``."""
    return -math.log(fpp) / math.log(2) ** 2


def bits_per_key(fpp: float, hashes: int) -> float:
    """m/n of the classic filter when k is given: ``-k / ln(1 - p**(1/k))``."""
    return -hashes / math.log1p(-(fpp ** (1 / hashes)))


def choose_hashes(fpp: float, tolerance: float = BITS_TOLERANCE, least: int = 1) -> int:
    """Return the fewest hashes, from ``least`` on, that cost few enough bits.

    At most ``tolerance`` times the optimal number of bits.
    """
    limit = tolerance * optimal_bits_per_key(fpp)
    hashes = least
    while bits_per_key(fpp, hashes) > limit:
        hashes += 1
    return hashes


def block_fill(hashes: int, keys: float) -> float:
    """Expected share of the bits of a block that ``keys`` keys set."""
    return -math.expm1(hashes * keys * math.log1p(-1 / POSITIONS))


def block_rate(hashes: int, keys: float) -> float:
    """False-positive rate of one block that holds ``keys`` keys."""
    fill = block_fill(hashes, keys)
    beyond = 1 - BLOCK_BITS / POSITIONS
    return float(((1 - beyond) * fill + beyond) ** hashes)


def false_positive_rate(hashes: int, blocks: int, keys: float) -> float:
    """Expected rate of a layer of ``blocks`` blocks that holds ``keys`` keys.

    The mean of :func:`block_rate` over the number of keys per block, which is
    binomial and here approximated by a normal distribution (see :data:`NORMAL`).
    """
    mean = keys / blocks
    deviation = math.sqrt(mean * (1 - 1 / blocks))
    if deviation == 0:
        return block_rate(hashes, mean)
    total = 0.0
    for z, weight in NORMAL:
        total += weight * block_rate(hashes, max(0.0, mean + z * deviation))
    return total / WEIGHTS


class Geometry(NamedTuple):
    """The shape of one layer.

    ``capacity`` keys at ``fpp``, with ``hashes`` positions per key, spread over
    ``blocks`` blocks of :data:`BLOCK_BITS` bits.
    """

    capacity: int
    fpp: float
    hashes: int
    blocks: int

    @property
    def bits(self) -> int:
        """m: bits in all blocks together."""
        return self.blocks * BLOCK_BITS

    @property
    def memory(self) -> int:
        """Bytes that all blocks take in memory."""
        return self.blocks * (POSITIONS // 8)

    @property
    def bits_per_key(self) -> float:
        """m/n at capacity."""
        return self.bits / self.capacity

    def lost(self, keys: float, older: float = 0.0) -> float:
        """Return how many new keys were called seen while it took ``keys``.

        ``older`` is the rate of the layers before. As the layer fills, its rate rises:
        this is the integral of ``rate / (1 - rate)`` over the keys taken (midpoint
        rule, 32 steps). A key that the layer itself called seen set no bit, but each
        key that it took set at least one new bit, so it is as full as if all had been
        added.
        """
        lost = asked = 0.0
        step = keys / 32
        for _ in range(32):
            rate = false_positive_rate(self.hashes, self.blocks, asked + step / 2)
            rate = min(rate, ALL_BUT_CERTAIN)
            asked += step / (1 - rate)
            both = min(older + rate, ALL_BUT_CERTAIN)
            lost += step * both / (1 - both)
        return lost

    def asked(self, keys: float) -> float:
        """Return how many different keys it took to get ``keys`` new ones.

        Matters from p = 1e-3 on; at 1e-1 the difference is 3 %.
        """
        rate = false_positive_rate(self.hashes, self.blocks, keys)
        return keys if rate < NEGLIGIBLE else keys + self.lost(keys)

    def rate(self, keys: float) -> float:
        """Return the expected rate after ``keys`` keys that were new to it."""
        return false_positive_rate(self.hashes, self.blocks, self.asked(keys))

    def fill(self, keys: float) -> float:
        """Return the expected share of bits set after ``keys`` new keys."""
        return block_fill(self.hashes, self.asked(keys) / self.blocks)

    def keys_for_fill(self, fill: float) -> float:
        """Number of keys estimated from the share of bits that are set.

        ``-m/k ln(1 - fill)`` (Swamidass and Baldi, 2007), with m the number of
        positions that a key may pick, the always-set ones included. A layer in which
        every bit is set counts as one in which a single bit is left.
        """
        fill = min(fill, 1 - 1 / self.bits)
        return -self.blocks * POSITIONS / self.hashes * math.log1p(-fill)


@lru_cache  # a crawl asks for the same few shapes several times
def geometry(capacity: int, fpp: float, hashes: int) -> Geometry:
    """Return the smallest layer that holds ``capacity`` keys at ``fpp``."""

    def holds(blocks: int) -> bool:
        return Geometry(capacity, fpp, hashes, blocks).rate(capacity) <= fpp

    # Twice as many are enough for p = 0.5, where every other new key is called seen.
    least = max(1, int(capacity * bits_per_key(fpp, hashes) / POSITIONS))
    some = range(least, 2 * least + 8)
    blocks = some[bisect_left(some, True, key=holds)]
    return Geometry(capacity, fpp, hashes, blocks)


def layer_geometry(capacity: int, fpp: float, number: int) -> Geometry:
    """Return layer ``number`` (0, 1, ...) of a filter that grows.

    A key is called seen if any layer says so, so the layers' probabilities add
    up. Layer 0 gets nine tenths of ``fpp``; layer i > 0 gets
    ``fpp / 10 * 2**-i``. The sum stays below ``fpp`` however many there are
    (Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom filters", 2007,
    with s = 2 and r = 1/2; their first layer would get half of ``fpp``, which
    costs 1.4 bits a key in every filter, also in those that never grow).

    k never falls from a layer to the next, so the positions of a key in an older
    layer are the first of those in the newest: they are calculated once.
    """
    share = fpp * FIRST_SHARE
    hashes = choose_hashes(share)
    for layer in range(1, number + 1):
        share = fpp * (1 - FIRST_SHARE) * TIGHTENING**layer
        hashes = choose_hashes(share, GROWTH_BITS_TOLERANCE, hashes)
    return geometry(capacity * GROWTH_FACTOR**number, share, hashes)


def rate_and_loss(layers: Sequence[tuple[Geometry, int]]) -> tuple[float, float]:
    """Return the expected rate now, and how many new keys were called seen so far.

    ``layers`` lists each layer with the keys in it, oldest first.
    """
    rate = loss = 0.0
    for shape, keys in layers:
        loss += shape.lost(keys, rate)
        rate += shape.rate(keys)
    return min(1.0, rate), loss

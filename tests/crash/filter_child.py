"""Fills a filter with the numbers from ``first`` on; prints what is durable."""

from __future__ import annotations

import sys

from bloomdupe import BloomFilter
from bloomdupe.filter import bloom, layer

path, first, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
too_early = "--too-early" in sys.argv
# Sweeps and growth must happen within a run of a tenth of a second.
layer.MIN_BACKLOG = 500
layer.MIN_SWEEP = 1
bloom.MAX_PENDING = 10**9 if too_early else 700

print("begun", flush=True)
seen = BloomFilter.open(path, 20_000, 1e-6)
number = first
while True:
    for _ in range(batch):
        seen.add(str(number))
        number += 1
    if too_early:
        print(number, flush=True)
    if not too_early or number % 5000 == 0:
        seen.checkpoint()
    if not too_early:
        print(number, flush=True)

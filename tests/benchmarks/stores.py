"""Tables 4 to 6: opening a store, bytes written, memory."""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from machine import chunks, device_written, resident, sync_times, urls, written
from runner import Report

from bloomdupe import BloomFilter
from bloomdupe.filter.sizing import optimal_bits_per_key

FPP = 1e-6
OPEN_LIMIT, REPLAY_LIMIT = 50.0, 700.0
STALL_LIMIT = 25.0
EVERY = 1_000
"""New keys per checkpoint."""


def percentiles(times: list[float]) -> list[str]:
    """p50, p99 and maximum in ms."""
    ordered = sorted(times)
    picks = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])
    return [f"{1e3 * pick:.1f}" for pick in picks]


def opening(report: Report, directory: Path, *, quick: bool) -> None:
    rows = []
    for capacity in (1_000_000, 10_000_000, *(() if quick else (1_000_000_000,))):
        path = directory / f"open-{capacity}"
        with BloomFilter.open(path, capacity, FPP) as target:
            target.update(urls(0, 1_000))
        few = open_times(path)
        with BloomFilter.open(path) as target:
            # The journal is longest when one sweep's worth of keys has been added.
            longest = target._contents.newest.backlog_limit
            for keys in chunks(1_000, 1_000 + longest):
                target.update(keys)
            target.checkpoint()
            journal = target.info().journal_keys
        many = open_times(path)
        shutil.rmtree(path)
        opened, replayed = (1e3 * statistics.median(times) for times in (few, many))
        limit = OPEN_LIMIT + REPLAY_LIMIT
        what = f"opening n = {capacity:,}"
        rows.append(
            [
                f"{capacity:,}",
                report.bound(f"{what}, ms", opened, OPEN_LIMIT, ".1f"),
                f"{1e3 * min(few):.1f}-{1e3 * max(few):.1f}",
                f"{journal:,}",
                report.bound(f"{what} with its journal, ms", replayed, limit, ".0f"),
                f"{1e3 * min(many):.0f}-{1e3 * max(many):.0f}",
            ]
        )
    report.table(
        "Opening a store",
        "Wall time in ms, median and range of five openings; the file is in the"
        " page cache.",
        [
            *("capacity", "1,000 keys", "range"),
            *("longest journal, keys", "with it", "range"),
        ],
        rows,
    )


def open_times(path: Path) -> list[float]:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        target = BloomFilter.open(path)
        times.append(time.perf_counter() - begin)
        target.close()
    return times


def file_size(path: Path) -> int:
    return (path / "data.mdb").stat().st_size


class Run(NamedTuple):
    """The measurements while a store was filled, checkpoint by checkpoint."""

    dirtied: float
    """Bytes per key of write_bytes."""
    asked: float
    """Bytes per key of wchar: the bytes that write calls were given."""
    device: float | None
    """Bytes per key that the disk wrote, for all programs."""
    wall: list[float]
    cpu: list[float]
    largest: int


def run_checkpoints(target: BloomFilter, path: Path, keys: int) -> Run:
    wall, cpu = [], []
    largest = 0
    before, device_before = written(), device_written(path)
    for some in chunks(0, keys, size=EVERY):
        target.update(some)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        target.checkpoint()
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
        largest = max(largest, file_size(path))
    dirtied, asked = (
        (now - then) / keys for now, then in zip(written(), before, strict=True)
    )
    now = device_written(path)
    if now is None or device_before is None:
        device = None
    else:
        device = (now - device_before) / keys
    return Run(dirtied, asked, device, wall, cpu, largest)


def bytes_written(report: Report, directory: Path, *, quick: bool) -> None:
    keys = 200_000 if quick else 2_000_000
    rows, stalls, files = [], [], []
    stalls.append(["fdatasync of 4 kB", *percentiles(sync_times(directory, 500)), "-"])
    for capacity, limit in ((10_000_000, 100), (100_000_000, 500)):
        path = directory / f"bytes-{capacity}"
        name = f"n = {capacity:,}"
        with BloomFilter.open(path, capacity, FPP) as target:
            run = run_checkpoints(target, path, keys)
            rows.append(
                [
                    f"{capacity:,}",
                    report.bound(f"{name}: wchar", run.asked, limit, ".1f"),
                    f"{run.dirtied:.1f}",
                    "unknown"
                    if run.device is None
                    else report.bound(f"{name}: disk", run.device, limit, ".1f"),
                ]
            )
            worst = 1e3 * max(run.wall)
            middle, most, _ = percentiles(run.wall)
            longest = report.bound(f"{name}: stall, ms", worst, STALL_LIMIT, ".1f")
            stalls.append(
                [f"checkpoint, {name}", middle, most, longest, percentiles(run.cpu)[2]]
            )
            if capacity == 10_000_000:
                full = capacity // 10 if quick else capacity
                files.append(file_row(report, target, path, run.largest, full))
        shutil.rmtree(path)
    report.table(
        "Bytes written per new key",
        f"p = {FPP:g}, {keys:,} new keys, a checkpoint every {EVERY:,}, folding"
        " included. From /proc/self/io, beside the writes of all programs to the disk"
        " meanwhile. write_bytes is shown but not judged: it counts a whole folio of"
        " the page cache when any byte of it changes, which on kernels with large"
        " folios is far more than reaches the disk.",
        ["n", "wchar", "write_bytes", "whole disk"],
        rows,
    )
    report.table(
        "How long a checkpoint takes",
        "ms of wall time, in the same run; the first line is the time that the"
        " disk needs for any sync.",
        ["", "median", "99 %", "longest", "longest, CPU"],
        stalls,
    )
    report.table(
        "File size",
        "The same store filled on; over the theoretical size of its capacity"
        " (1.44 log2 1/p bits a key).",
        ["keys", "largest ever"],
        files,
    )


def file_row(
    report: Report, target: BloomFilter, path: Path, largest: int, keys: int
) -> list[str]:
    """Fill the store on, and look at its size all the while."""
    theory = target.capacity * optimal_bits_per_key(FPP) / 8
    for some in chunks(len(target), keys, size=10_000):
        target.update(some)
        largest = max(largest, file_size(path))
    return [
        f"{len(target):,}",
        report.bound("largest file over theory", largest / theory, 2.5),
    ]


STARTED = 500_000
"""Bytes of memory that a store without keys takes."""


def memory(report: Report, directory: Path) -> None:
    capacity = 10_000_000
    # A process of its own: this process has memory left over from other tables.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        states = pool.apply(memory_of, (directory / "memory", capacity))
    rows = []
    for state, loaded, anonymous, everything, size in states:
        limit = 1.1 * size + STARTED
        cell = report.bound(f"memory, {state}, MB", anonymous / 1e6, limit / 1e6, ".1f")
        rows.append(
            [
                state,
                f"{loaded / 1e6:.1f}",
                f"{size / 1e6:.1f}",
                cell,
                f"{everything / 1e6:.1f}",
                f"{anonymous / capacity:.2f}",
            ]
        )
    report.table(
        "Memory",
        f"n = {capacity:,}, p = {FPP:g}; MB that the process grew by. The bound is the"
        f" file plus a tenth (and {STARTED / 1e6:g} MB for an empty store).",
        ["", "pages", "file", "RssAnon", "VmRSS", "RssAnon per key of capacity"],
        rows,
    )


def fill_slowly(target: BloomFilter, keys: int) -> None:
    """Add keys, few at a time, so that the keys themselves take no memory."""
    for some in chunks(len(target), keys, size=1_000):
        target.update(some)


def memory_of(path: Path, capacity: int) -> list[tuple[str, int, int, int, int]]:
    """Fill a store in this process."""
    states: list[tuple[str, int, int, int, int]] = []
    begin = resident()

    def note(state: str, target: BloomFilter) -> None:
        anonymous, everything = resident()
        grown = (anonymous - begin[0], everything - begin[1])
        states.append((state, target.memory_bytes, *grown, file_size(path)))

    target = BloomFilter.open(path, capacity, FPP)
    note("created", target)
    fill_slowly(target, capacity // 2)
    note("half full", target)
    fill_slowly(target, capacity - 1)
    note("full", target)
    target.close()
    return states

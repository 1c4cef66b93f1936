"""The command line: sizes and stores. ``bloomdupe --help`` says what there is."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from bloomdupe import __version__, sizing
from bloomdupe.bloom import BloomFilter
from bloomdupe.check import verify
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.info import wilson_interval
from bloomdupe.parameters import DEFAULT_FPP
from bloomdupe.repair import repair
from bloomdupe.restore import restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["add_verbs", "build_parser", "main", "run"]

DEFAULT_CAPACITY = 10_000_000

MEASURED_KEYS = 1_000_000
MEASURED_QUESTIONS = 2_000_000

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def amount(text: str) -> int:
    """Read a number of keys or bytes: ``10000000``, ``10_000_000``, ``1e7``, ``10M``.

    K, M, G and T are powers of 1000; a trailing B is allowed.
    """
    match = re.fullmatch(r"([0-9_.]+(?:e[0-9]+)?)\s*([KMGT]?)B?", text.strip(), re.I)
    try:
        number = float(match[1]) * UNITS[match[2].upper()] if match else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number such as 10000000, 1e7 or 10M"
        )
    return int(number)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the ``bloomdupe`` command."""
    parser = argparse.ArgumentParser(
        prog="bloomdupe",
        description="Size Bloom filters and look after the stores of crawls.",
    )
    parser.add_argument(
        "--version", action="version", version=f"bloomdupe {__version__}"
    )
    add_verbs(parser)
    return parser


def add_verbs(parser: argparse.ArgumentParser, jobdir: str | None = None) -> None:
    """Add the verbs; ``jobdir`` is the store to take when none is named."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    size = verbs.add_parser(
        "size",
        help="what a number of URLs and a false-positive probability cost",
        description=(
            "What a number of URLs and a false-positive probability cost in bits,"
            " memory and disk; or, with --bits-per-key or --memory, what probability"
            " they buy."
        ),
    )
    size.add_argument(
        "--urls",
        type=amount,
        default=DEFAULT_CAPACITY,
        metavar="N",
        help="expected URLs, such as 10M (default: %(default)s)",
    )
    given = size.add_mutually_exclusive_group()
    given.add_argument(
        "--fpp",
        metavar="P",
        default=str(DEFAULT_FPP),
        help="false-positive probability (default: %(default)s)",
    )
    given.add_argument(
        "--bits-per-key", type=float, metavar="BITS", help="bits for each URL"
    )
    given.add_argument(
        "--memory", type=amount, metavar="BYTES", help="memory for all, such as 64M"
    )
    size.add_argument(
        "--filled",
        type=amount,
        metavar="N",
        help="URLs actually in it (default: as many as expected)",
    )
    size.add_argument(
        "--measure",
        action="store_true",
        help="fill such a filter (of at most a million keys) and count",
    )

    info = verbs.add_parser(
        "info",
        help="what a store holds",
        description=(
            "What a store holds: parameters, URLs seen, false-positive probability."
            " Reads the last checkpoint; a crawl may be running."
        ),
    )
    compact = verbs.add_parser(
        "compact",
        help="shrink the file of a store",
        description=(
            "Fold the journal of a store into its pages and shrink its file. No crawl"
            " may be running."
        ),
    )
    backup = verbs.add_parser(
        "backup",
        help="copy a store, also while a crawl is running",
        description=(
            "Copy the last checkpoint of a store to a new directory, compacted. A"
            " crawl may be running."
        ),
    )
    verify = verbs.add_parser(
        "verify",
        help="check a store and change nothing",
        description=(
            "Read all of a store and say what is wrong. Nothing is changed. No crawl"
            " may be running. Exit code 1 if anything is wrong."
        ),
    )
    repair = verbs.add_parser(
        "repair",
        help="save what can be read in a damaged store",
        description=(
            "Make a new store of everything that can be read in a damaged one, and say"
            " what could not be saved. The damaged one stays as it is; `bloomdupe"
            " restore NEW STORE --replace` puts the new one in its place."
        ),
    )
    restore = verbs.add_parser(
        "restore",
        help="put a backup in the place of a store",
        description=(
            "Check a backup and put a copy of it in the place of a store. A store that"
            " is there is moved aside, if told so, and never deleted."
        ),
    )
    restore.add_argument("backup", help="what `bloomdupe backup` has made")
    restore.add_argument(
        "--replace", action="store_true", help="move the store that is there aside"
    )
    for verb in (info, compact, backup, verify, repair, restore):
        verb.add_argument(
            "store",
            nargs="?" if jobdir and verb not in (backup, repair) else None,
            default=jobdir,
            help="a JOBDIR, or the directory of a store"
            + (f" (default: {jobdir})" if jobdir and verb is not backup else ""),
        )
    repair.add_argument("new", help="directory to create")
    backup.add_argument("target", help="directory to create")
    for verb in (size, info, compact, backup, verify, repair, restore):
        verb.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 0 done, 1 failed, 2 bad usage."""
    return run(build_parser().parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Carry out parsed options."""
    verbs: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "size": _size,
        "info": _info,
        "compact": _compact,
        "backup": _backup,
        "verify": _verify,
        "repair": _repair,
        "restore": _restore,
    }
    try:
        return verbs[options.verb](options) or 0
    except SettingError as error:
        print(f"bloomdupe {options.verb}: {error}", file=sys.stderr)
        return 2
    except BloomDupeError as error:
        print(f"bloomdupe {options.verb}: {error}", file=sys.stderr)
        return 1


# size


def _size(options: argparse.Namespace) -> None:
    capacity = sizing.check_capacity(options.urls, "--urls")
    fpp = _given_fpp(options, capacity)
    shape = sizing.layer_geometry(capacity, fpp, 0)
    filled = capacity if options.filled is None else options.filled
    report: dict[str, Any] = {
        "urls": capacity,
        "filled": filled,
        "fpp_given": fpp,
        "fpp_optimal": sizing.optimal_fpp(shape.bits_per_key),
        "fpp_calculated": shape.rate(filled),
        "bits_per_key_optimal": sizing.optimal_bits_per_key(fpp),
        "bits_per_key": shape.bits_per_key,
        "hashes_optimal": sizing.optimal_hashes(fpp),
        "hashes": shape.hashes,
        "pages": shape.pages,
        "memory_bytes": shape.pages * sizing.POSITIONS // 8,
        "disk_bytes": shape.bits // 8,
        "fill": shape.fill(filled),
    }
    if options.measure:
        report |= _measured(capacity, fpp, filled)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    rows = [
        ("expected URLs (n)", f"{capacity:,}"),
        ("URLs in it", f"{filled:,}"),
        ("false-positive probability (p), given", f"{fpp:.3g}"),
        ("  calculated", f"{report['fpp_calculated']:.3g}"),
    ]
    if options.measure:
        rows.append(
            (
                "  measured",
                f"{report['fpp_measured']:.3g} (95 %: {report['fpp_low']:.3g} to"
                f" {report['fpp_high']:.3g}, {report['questions']:,} questions)",
            )
        )
    rows += [
        ("  least possible with that many bits", f"{report['fpp_optimal']:.3g}"),
        ("bits per key (m/n)", f"{report['bits_per_key']:.2f}"),
        ("  least possible for that p", f"{report['bits_per_key_optimal']:.2f}"),
        ("hashes (k)", str(report["hashes"])),
        ("  of the filter with the fewest bits", f"{report['hashes_optimal']:.1f}"),
        ("share of bits set", f"{report['fill']:.1%}"),
        ("memory", f"{report['memory_bytes']:,} bytes"),
        ("disk, compacted", f"{report['disk_bytes']:,} bytes"),
    ]
    _print_rows(rows)


def _given_fpp(options: argparse.Namespace, capacity: int) -> float:
    """Return the probability asked for, or what the bits asked for buy."""
    bits = options.bits_per_key
    if options.memory is not None:
        bits = 8 * options.memory / capacity
    if bits is None:
        return sizing.check_fpp(options.fpp, "--fpp")
    fpp = sizing.affordable_fpp(capacity, bits)
    if fpp is None:
        raise SettingError(
            f"{bits:.3g} bits per key are too few for {capacity:,} URLs: the smallest"
            f" filter, of p = {sizing.MAX_FPP:g}, takes more"
        )
    return fpp


def _measured(capacity: int, fpp: float, filled: int) -> dict[str, Any]:
    """Fill a filter and count; a smaller one in the same proportion if it is huge."""
    size = min(capacity, MEASURED_KEYS)
    seen = BloomFilter(size, fpp, growth="warn")
    seen.update(f"in{i}" for i in range(round(filled * size / capacity)))
    hits = sum(f"out{i}" in seen for i in range(MEASURED_QUESTIONS))
    low, high = wilson_interval(hits, MEASURED_QUESTIONS)
    return {
        "fpp_measured": hits / MEASURED_QUESTIONS,
        "fpp_low": low,
        "fpp_high": high,
        "questions": MEASURED_QUESTIONS,
    }


# Stores


def _store_directory(place: str) -> Path:
    """Return the store in a JOBDIR, or the directory itself."""
    directory = Path(place)
    inside = directory / "bloomdupe"
    return inside if inside.is_dir() else directory


def _info(options: argparse.Namespace) -> None:
    with BloomFilter.open(_store_directory(options.store), readonly=True) as seen:
        info = seen.info()
        identity = seen.identity
    if options.json:
        print(json.dumps({**info.as_dict(), "identity": identity}, indent=2))
        return
    rows = [
        ("store", str(info.path)),
        *((f"made for {name}", str(value)) for name, value in identity.items()),
        ("expected URLs (n), given", f"{info.capacity:,}"),
        ("URLs seen, counted", f"{info.keys:,}"),
        ("  estimated from the fill", f"{info.estimated_keys:,.0f}"),
        ("false-positive probability (p), given", f"{info.fpp:.3g}"),
        ("  calculated for now", f"{info.current_fpp:.3g}"),
        ("  measured over the crawl", _measured_text(info.as_dict())),
        ("new URLs dropped so far, expected", f"{info.expected_loss:.3g}"),
        ("layers", str(len(info.layers))),
        ("keys kept exactly", f"{info.exact_keys:,} (share {info.confirm:g})"),
        ("keys in the journal", f"{info.journal_keys:,}"),
        ("disk", f"{info.disk_bytes:,} bytes"),
    ]
    _print_rows(rows)


def _measured_text(info: dict[str, Any]) -> str:
    if not info["trials"]:
        return "not measured (no keys are kept exactly: confirm is 0)"
    return (
        f"{info['measured_fpp']:.3g} (95 %: {info['measured_low']:.3g} to"
        f" {info['measured_high']:.3g}; {info['false_positives']:,} of"
        f" {info['trials']:,})"
    )


def _compact(options: argparse.Namespace) -> None:
    with BloomFilter.open(_store_directory(options.store)) as seen:
        before = seen.info().disk_bytes
        seen.compact()
        after = seen.info().disk_bytes
    if options.json:
        print(json.dumps({"bytes_before": before, "bytes_after": after}))
    else:
        print(f"{options.store}: {before:,} bytes before, {after:,} bytes now")


def _backup(options: argparse.Namespace) -> None:
    source = _store_directory(options.store)
    with BloomFilter.open(source, readonly=True) as seen:
        seen.backup(options.target)
        keys = len(seen)
    if options.json:
        print(
            json.dumps({"source": str(source), "target": options.target, "keys": keys})
        )
    else:
        print(f"{options.target}: {keys:,} URLs")


def _verify(options: argparse.Namespace) -> int:
    store = _store_directory(options.store)
    records, problems = verify(store, _Progress(store).read)
    if options.json:
        report = {"store": str(store), "records": records, "problems": problems}
        print(json.dumps(report, indent=2))
        return int(bool(problems))
    rows = [("store", str(store))]
    rows += [(f"  {name}", f"{count:,} records") for name, count in records.items()]
    _print_rows(rows)
    for problem in problems:
        print(problem)
    if problems:
        print(
            f"Damaged. `bloomdupe restore BACKUP {store} --replace` puts a backup in"
            f" its place; `bloomdupe repair {store} NEW` saves what can be read."
        )
    else:
        print("Everything is as it was written.")
    return int(bool(problems))


def _repair(options: argparse.Namespace) -> None:
    store = _store_directory(options.store)
    new = Path(options.new)
    repaired = repair(store, new, _Progress(store, times=2).read)
    if options.json:
        print(json.dumps(asdict(repaired), indent=2))
        return
    for problem in repaired.damaged:
        print(f"damaged: {problem}")
    for loss in repaired.lost:
        print(f"lost: {loss}")
    if not repaired.lost:
        print("Nothing is lost.")
    saved = [f"{count:,} {name}" for name, count in repaired.saved.items() if count]
    print(f"{new}: {', '.join(saved) or 'nothing'}")
    print(
        f"`bloomdupe restore {new} {store} --replace` puts it in the old one's place."
    )


def _restore(options: argparse.Namespace) -> None:
    backup = _store_directory(options.backup)
    target = Path(options.store)
    if target.is_dir() and (
        (target / "bloomdupe").is_dir() or not (target / "data.mdb").exists()
    ):
        target /= "bloomdupe"  # of a JOBDIR
    aside = restore(backup, target, replace=options.replace)
    if options.json:
        moved = None if aside is None else str(aside)
        print(json.dumps({"store": str(target), "moved_aside": moved}))
        return
    print(f"{target}: restored from {backup}")
    if aside is not None:
        print(f"What was there is now {aside}")


class _Progress:
    """Says on standard error how far a long verb has come."""

    def __init__(self, store: Path, times: int = 1) -> None:
        data = store / "data.mdb"
        self._all = max(1, times * (data.stat().st_size if data.exists() else 0))
        self._due = monotonic() + 1
        self._read = 0

    def read(self, size: int) -> None:
        """Take note of bytes read."""
        self._read += size
        if monotonic() >= self._due:
            self._due += 1
            share = min(1, self._read / self._all)
            print(f"{share:.0%} of {self._all / 1e6:,.0f} MB", file=sys.stderr)


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    sys.exit(main())

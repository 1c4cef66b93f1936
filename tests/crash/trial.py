"""Trial: one injected fault and its outcome; Fault: a class of trials."""

from __future__ import annotations

import abc
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from support.judge import Verdict as Compared

Verdict = Literal["ok", "lost", "silently wrong", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """The result of one trial.

    ``lost``: something that was durable is gone, or the work cannot go on.
    ``silently wrong``: something is false and nothing says so; work is done twice.
    ``crashed``: the process that recovers died of a signal, hung, or ended in an
    error that is not ours.
    """

    verdict: Verdict
    words: str = ""

    def at(self, where: str) -> Outcome:
        """Return it with the place at which the fault was, if it is bad."""
        return self if self == OK else Outcome(self.verdict, f"{where}: {self.words}")


OK = Outcome("ok")


def lost(words: str) -> Outcome:
    return Outcome("lost", words)


def silently_wrong(words: str) -> Outcome:
    return Outcome("silently wrong", words)


def crashed(words: str) -> Outcome:
    return Outcome("crashed", words)


def outcome_of(verdict: Compared) -> Outcome:
    """Return what a comparison has found."""
    words = "; ".join(verdict.complaints)
    if verdict.lost:
        return lost(words)
    return silently_wrong(words) if words else OK


def refused_well(error: Exception, path: Path, *remedies: str) -> Outcome:
    """Judge an error of ours: a line with the path of the store, and a remedy."""
    words = str(error)
    helps = str(path) in words and any(remedy in words for remedy in remedies)
    if "\n" in words or not helps:
        return lost(f"the refusal does not help: {words}")
    return OK


CONTROL_SEED = 1
"""Of the chance in all controls: each is caught every time, and not by chance."""


class Fault(abc.ABC):
    """A class of faults, with the number it has in the fault plan."""

    number: ClassVar[str]
    """``F2`` ..."""
    name: ClassVar[str]
    """A few words for the table."""
    cases: ClassVar[int] = 1
    """In CI's share."""
    needs: ClassVar[str] = ""
    """A program, or ``root``."""
    excusable: ClassVar[bool] = False
    """Whether CI may do without, on a machine that cannot do it at all."""

    def missing(self) -> str | None:
        """Name what this machine lacks; None if it has all."""
        root = self.needs == "root" and os.geteuid() == 0
        there = root or not self.needs or shutil.which(self.needs)
        return None if there else f"needs {self.needs}"

    @abc.abstractmethod
    def run(self, folder: Path, seed: int) -> list[Outcome]:
        """Run one case in an empty folder, all its chance from ``seed``.

        A case is a trial, or several that share what is expensive. It runs in a
        process of its own: if that dies or hangs, it counts as ``crashed``.
        """

    @abc.abstractmethod
    def control(self, folder: Path) -> list[Outcome]:
        """Take the protection away where it is needed: an outcome must be bad."""

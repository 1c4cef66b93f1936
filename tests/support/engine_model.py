"""Programs for the contract of the engines, and its model in plain Python.

A program says which requests and items each page yields. The model has no engine: it
follows from the promise that each request is done once. The spider ``Drives`` carries
out programs, see ``spiders/contract.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

HOSTS = 3


class Ask(NamedTuple):
    """A request that a page or ``start()`` yields."""

    page: int
    again: bool = False
    """Whether it has ``dont_filter``."""
    memory: str = ""
    """If it cannot be stored: whether its values are ``shared``, or its ``own``."""
    priority: int = 0


class Page(NamedTuple):
    """A page, and the way in which its callback goes."""

    outputs: tuple[Ask | str, ...] = ()
    """Requests, and texts of items; each try has a further item with an empty text."""
    fails: int = 0
    """Number of tries of which the callback yields a retry, too."""
    leads_to: int | None = None
    """The page to which it redirects, in the place of all output."""


class Program(NamedTuple):
    """A crawl."""

    pages: tuple[Page, ...] = (Page(),)
    starts: tuple[Ask, ...] = (Ask(0),)

    def dumped(self) -> str:
        """Return the program as a text."""
        return json.dumps(self)

    @classmethod
    def loaded(cls, text: str) -> Program:
        """Return the program of a text."""
        pages, starts = json.loads(text)
        return cls(
            tuple(
                Page(
                    tuple(
                        each if isinstance(each, str) else Ask(*each)
                        for each in outputs
                    ),
                    *rest,
                )
                for outputs, *rest in pages
            ),
            tuple(Ask(*each) for each in starts),
        )


class Run(NamedTuple):
    """A run of a program that does not end well."""

    events: tuple[tuple[int, str], ...] = ()
    """Numbers of steps of the run, and the event before each step: ``kill`` ends the
    process, ``stop`` the run, ``cut`` the callback and the run, as ``CloseSpider``
    does; ``break`` breaks off the processing of the request.
    """
    order: tuple[int, ...] = ()
    """Choices: the next request, and its next output, by turns."""
    durable: tuple[bool, ...] = ()
    """Whether all before a step is durable, by turns."""
    failures: tuple[str, ...] = ()
    """Of the first requests in this run: whether the ``downloader`` or the ``callback``
    retries them, in the place of all output; or the callback does at a ``mirror``,
    which is another host.
    """


def item_of(page: int, tries: int, text: str) -> str:
    """Return an item of a page, which so many tries with output precede."""
    return f"page {page}, {tries} retries: {text}"


class Model:
    """Does a program without any interruption, and counts its items.

    The items of a request tell that it was done. Stops after ``most`` requests. Retries
    in the place of all output change nothing, so it has no such retries.
    """

    def __init__(self, program: Program, most: int) -> None:
        self.items = Counter[str]()
        self.requests = 0
        self._program = program
        self.second_uses = 0
        """Links to start pages with another callback, which may pass once."""
        self._found: set[int] = set()
        self._uses = {
            (start.page, bool(start.memory)) for start in program.starts if start.again
        }
        self._pending: list[tuple[int, bool, int, bool]] = []
        for start in program.starts:
            self._ask(start, start=True)
        while self._pending and self.requests <= most:
            self.requests += 1
            self._do(*self._pending.pop())

    def _ask(self, ask: Ask, *, start: bool = False) -> None:
        """Accept a request, unless it is a duplicate.

        A link to a start page is a duplicate, even if that has ``dont_filter``.
        """
        page, again, in_memory = ask.page, ask.again, bool(ask.memory)
        if page in self._found and not again:
            is_start = {(page, True), (page, False)} & self._uses
            self.second_uses += bool(is_start) and (page, in_memory) not in is_start
            return
        if start or not again:
            self._found.add(page)
        self._pending.append((page, again, 0, in_memory))

    def _do(self, number: int, again: bool, tries: int, in_memory: bool) -> None:
        page = self._program.pages[number]
        if tries < page.fails:
            self._pending.append((number, True, tries + 1, in_memory))
        elif page.leads_to is not None:
            if again:
                self._pending.append((page.leads_to, again, tries, in_memory))
            else:
                self._ask(Ask(page.leads_to, memory="own" if in_memory else ""))
            return
        for output in ("", *page.outputs):
            if isinstance(output, Ask):
                self._ask(output)
            else:
                self.items[item_of(number, tries, output)] += 1

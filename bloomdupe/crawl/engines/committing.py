"""Committing: when the checkpoints of a crawl are written, and on which threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.ending import SHUTDOWN
from bloomdupe.inside_scrapy.engine import Timer

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from bloomdupe.crawl.engines.checkpoint import Steps
    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine

SOON = 0.01
"""Seconds for the crawl between the parts of a checkpoint that is too much at once."""
SHORTLY = 0.05
"""Seconds until a checkpoint for which a callback waits."""
LONGEST_SILENCE = 1.0
"""Seconds between two signs of life of a worker."""
POLL = 0.002
"""Seconds until it looks again."""
SHORTEST_HOLD, LONGEST_HOLD = 0.1, 5.0
"""Seconds for which callbacks are held, at most: at first, and after vain attempts."""
SHARE, LATEST = 5, 10.0
"""A longer hold comes after so many times its length without a checkpoint, or after so
many seconds."""
SKIPPED = 20
"""Checkpoints that do not wait after the longest hold was in vain. Each time it is in
vain again, there are twice as many, up to so many for each 0.1 seconds of it."""


class Committing:
    """Writes a checkpoint at each interval, or at once if it should not wait.

    A store on the network is written to on a thread: the crawl goes on while a commit
    is *out*, and its changes meanwhile belong to the next commit. No two are out at the
    same time. A store on this machine is written to at once, on the reactor's thread.
    """

    def __init__(self, engine: CrawlEngine) -> None:
        self._engine, settings = engine, engine.settings
        self._interval = settings.checkpoint_interval
        is_shared = settings.is_shared
        if is_shared:  # its commits show that a worker is alive
            most = min(LONGEST_SILENCE, settings.redis_lease / 10)
            self._interval = min(self._interval, most)
        self.quiet = Quiet(
            self._is_at_work,
            lambda: engine.memory is not None and not engine.memory.is_empty,
            lambda: engine.frontier.leads and engine.session.access.is_closing,
            longest=SHORTEST_HOLD if is_shared else LONGEST_HOLD,
        )
        self._thread: Background | None = None
        if is_shared:
            self._thread = Background("bloomdupe", self._failed)
        self._tick = Timer(self._on_tick)
        self._was_quiet, self._gets_on = True, False
        """Whether the last checkpoint remembers nothing of a page that was not done
        then; whether there was one after the first."""
        self.backpressure = False
        """Whether callbacks pause: their output is kept in memory until a commit."""
        self._is_hurried = False
        """Whether the next checkpoint was asked to come shortly."""
        self._is_patient: bool | None = None
        """Whether a checkpoint that should not wait does, so that no page is at work
        whose changes of the spider's memory would be in it by half; None: unknown."""

    def _is_at_work(self) -> bool:
        """Whether a page has begun that is not done."""
        session = self._engine.session
        return session.processing.busy or bool(session.registry.with_parts)

    def is_last_better(self, reason: str) -> bool:
        """Whether the last checkpoint is better than one at the end of the run.

        Pages that wait for requests in memory run again. A checkpoint at the end would
        remember them; the last one may not. A run that has a limit, and only its first
        checkpoint, must get on. On Redis only the leader's memory is stored.
        """
        if not (self._engine.frontier.leads and self._was_quiet):
            return False
        has_parts = bool(self._engine.session.registry.with_parts)
        gets_on = self._gets_on or reason == SHUTDOWN
        return has_parts and gets_on and self.quiet.matters()

    @property
    def is_out(self) -> bool:
        """Whether a step of a checkpoint is on its way, on the thread."""
        return self._thread is not None and self._thread.is_busy

    def write_first(self) -> None:
        """Write the first checkpoint of a run; its errors prevent the run."""
        begun = perf_counter()
        for send in self._engine.steps(first=True):
            send()
        self._engine.watch.wrote(perf_counter() - begun)

    def begin(self) -> None:
        """Write checkpoints from now on."""
        self._tick.set(self._interval)

    def commit_soon(self) -> None:
        """Write a checkpoint as soon as the running code returns control.

        Or as soon as the checkpoint that is out is written. Until then callbacks pause.
        """
        if not (self._tick.is_set or self.is_out):
            return
        first = self._is_patient is None
        if first:
            self._is_patient = self.quiet.matters()
        is_patient = self._is_patient and not self._engine.frontier.overdue
        self.backpressure = self._engine.durable and not is_patient
        # It is called for each new request, and a checkpoint may wait meanwhile.
        if self._tick.is_set and (first or self.backpressure):
            self._tick.set(0)

    def commit_shortly(self) -> None:
        """Write a checkpoint shortly, because a callback waits for it.

        Or shortly after the checkpoint that is out.
        """
        if self._tick.is_set and not self._is_hurried:
            self._tick.set(min(SHORTLY, self._interval))
        self._is_hurried = True

    def _on_tick(self) -> None:
        self._is_hurried = False
        if self.backpressure or not self._engine.durable:
            self.quiet.end()
        elif self.quiet.waits():
            self._tick.set(POLL if self.quiet.holds else SOON)
            return
        self._engine.session.registry.save_old()
        if self._engine.checkpoint.changed and not self._engine.fails():
            self._was_quiet = not (self._is_at_work() and self.quiet.matters())
            self._gets_on = True
            self._go_on(self._engine.steps(), perf_counter(), self._thread)
        self._follow()

    def _follow(self) -> None:
        """Prepare for the next checkpoint, unless one is out."""
        engine = self._engine
        if engine.session.closed or self.is_out:
            return
        self._is_patient = None
        soon, due = engine.after_commit(), engine.frontier.due
        self.backpressure = self.backpressure and due and not engine.fails()
        pause = min(SHORTLY, self._interval) if self._is_hurried else self._interval
        self._tick.set(SOON if soon or due else pause)

    def write(self) -> None:
        """Write a checkpoint now, on this thread, when no other checkpoint is out."""
        self._wait()
        if not self._engine.fails():
            self._go_on(self._engine.steps(), perf_counter(), None)

    def close(self) -> None:
        """Write no more checkpoints but those that are asked for."""
        self.backpressure = False
        self.quiet.end()
        self._tick.cancel()
        self._wait()

    def _wait(self) -> None:
        """Wait for the checkpoint that is out."""
        if self._thread is not None:
            self._thread.wait()

    # The steps of a checkpoint

    def _go_on(self, steps: Steps, begun: float, thread: Background | None) -> None:
        """Go on with a checkpoint until it is out on the thread, or written."""

        def arrived(_: None) -> None:
            self._go_on(steps, begun, thread)
            self._follow()

        try:
            for send in steps:
                if thread is not None:
                    thread.run(send, arrived)
                    return
                send()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - of any listener
            self._engine.session.stopping.fail(error)
        else:
            self._engine.watch.wrote(perf_counter() - begun)

    def _failed(self, error: BaseException) -> None:
        self._engine.session.stopping.fail(error)
        self._follow()


class Quiet:
    """Finds the moment of a checkpoint.

    The memory of the spider belongs to no page. In the midst of a callback it has half
    of the callback's changes; after a kill the page would run again, and
    drop its items because ``self.seen`` knows them. So the checkpoint waits until each
    page that has begun is done: its callback, its pipelines, and the requests in memory
    that it waits for; and each item of ``start()``. Callbacks that have not begun, and
    further outputs of ``start()``, are held for a moment. If that is
    in vain, the checkpoint waits on, and callbacks are held again later, for twice as
    long. In the end it comes anyway, but not while the crawl closes: some pages wait
    for requests that are not handed out any more.

    ``busy`` tells whether a page has begun that is not done; ``matters`` whether the
    spider remembers anything at all; ``closing`` whether the crawl closes. Callbacks
    are held for ``longest`` seconds at most.
    """

    def __init__(
        self,
        busy: Callable[[], bool],
        matters: Callable[[], bool],
        closing: Callable[[], bool],
        *,
        longest: float = LONGEST_HOLD,
    ) -> None:
        self._busy = busy
        self.matters = matters
        self._closing = closing
        self._longest = longest
        self._hold = SHORTEST_HOLD
        """Seconds for which callbacks are held next."""
        self._since = 0.0
        """When they were held, if they are."""
        self._last = monotonic()
        """When the last checkpoint came."""
        self._is_worth_it: bool | None = None
        """Whether this checkpoint waits; None: it was not asked for yet."""
        self._skips = 0
        self._next_skips = SKIPPED
        self.holds = False
        """Whether callbacks that have not begun must wait."""

    def waits(self) -> bool:
        """Whether the checkpoint that is due has to wait; asked until it has not."""
        now = monotonic()
        if not self._busy():
            enough = 2 * (now - self._since) if self.holds else self._hold / 2
            self._hold = min(max(SHORTEST_HOLD, enough), self._longest)
            self._next_skips = SKIPPED
            self.end()
            return False
        if self._closing() and self.matters():
            self.holds = False
            return True
        if self._is_worth_it is None:
            self._is_worth_it = not self._skips and self.matters()
            self._skips = max(0, self._skips - 1)
        if self.holds and now - self._since >= self._hold:
            self.holds = False
            if self._hold >= self._longest:
                self._is_worth_it, self._skips = False, self._next_skips
                most = round(SKIPPED * self._longest / SHORTEST_HOLD)
                self._next_skips = min(2 * self._next_skips, most)
            self._hold = min(2 * self._hold, self._longest)
        if not self._is_worth_it:
            self.end()
            return False
        longer = SHARE * (self._hold - SHORTEST_HOLD)
        if not self.holds and now - self._last >= min(longer, LATEST):
            self.holds, self._since = True, now
        return True

    def end(self) -> None:
        """Let all callbacks go on: the checkpoint comes now."""
        self.holds, self._is_worth_it, self._last = False, None, monotonic()


class Background:
    """Runs calls on a thread, and in the event loop what is to follow each of them.

    ``fail`` is told of an exception of either.
    """

    def __init__(self, name: str, fail: Callable[[BaseException], None]) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._fail = fail
        self._then: dict[Future[Any], Callable[[Any], None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether results are still to come."""
        return bool(self._then)

    def run(self, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run a call, after those before it, and then ``then`` with its result."""
        loop = asyncio.get_running_loop()
        out = self._thread.submit(call)
        self._then[out] = then
        out.add_done_callback(lambda _: loop.call_soon_threadsafe(self._arrived, out))

    def _arrived(self, out: Future[Any]) -> None:
        then = self._then.pop(out, None)
        if then is None:  # it was dropped, or waited for
            return
        try:
            then(out.result())
        except Exception as error:  # noqa: BLE001 - of the call, or what follows
            self._fail(error)

    def wait(self) -> None:
        """Wait for all calls, and run the functions that follow them."""
        while self._then:
            out = next(iter(self._then))
            wait([out])
            self._arrived(out)

    def drop(self) -> None:
        """Drop the results that are still to come."""
        self._then.clear()

    def close(self) -> None:
        """Drop all results, and end the thread."""
        self.drop()
        self._thread.shutdown(wait=False)

"""An event loop in simulated time.

Nothing sleeps and nothing waits for a socket.  The loop runs callbacks while any are ready; when
none is, `time()` jumps to the next timer.  An hour of time-outs passes in a millisecond.

    call_soon ------------------> ready ---- one at random ---> run, then the checks
    call_at --> timers (heap) ------^   all that are due at the next moment

Which ready callback runs next is drawn from a seeded `Random`, so that one seed is one order of
events and another seed another; `fifo=True` keeps asyncio's own order.  Everything that could
make two runs of a seed differ is taken away: tasks and futures hash by number, not by address,
so that a set of them has the same order each time.

What a real loop would let hang is an error here:

- `SimDeadlock`: nothing is scheduled, and what was waited for has not happened;
- `SimLivelock`: very many callbacks ran and time did not move;
- an exception that no one handles ends the run, instead of being logged.

A `Life` is what a simulated process is made of.  It travels as a context variable, so every task,
timer and callback that comes from a life belongs to it; after `end_life` none of them runs again.
"""

import asyncio
import contextlib
import heapq
import random
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import Context, ContextVar
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
AnyCoroutine = Coroutine[Any, Any, T] | Generator[Any, None, T]

CALLBACKS_WITHOUT_TIME_MAX: Final = 1_000_000
_CANCELLED_TIMERS_KEPT: Final = 100
_CLOSING_ATTEMPTS: Final = 100


class SimDeadlock(Exception):
    """Nothing is scheduled, and what the run waits for has not happened."""


class SimLivelock(Exception):
    """Callbacks run without end while time stands still."""


class SimCrash(BaseException):
    """The machine is dead.  Not an `Exception`: no handler for errors may catch it."""


class Life:
    """One run of one simulated process, from its start to its death; it may be paused."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.held: list[SimHandle | SimTimer] | None = None  # what waits while it is paused

    def __repr__(self) -> str:
        return f"<Life {self.name} {'alive' if self.alive else 'dead'}>"


LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)


class SimTask(asyncio.Task[T]):
    def __init__(
        self,
        coroutine: AnyCoroutine[T],
        *,
        loop: "SimLoop",
        number: int,
        name: str | None,
        context: Context | None,
    ) -> None:
        self.number = number  # before the base class: it hashes the task
        self.life = _life_of(context)
        super().__init__(coroutine, loop=loop, name=name or f"Task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future[T]):
    def __init__(self, *, loop: "SimLoop", number: int) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimHandle(asyncio.Handle):
    __slots__ = ("life",)
    life: Life | None


class SimTimer(asyncio.TimerHandle):
    __slots__ = ("life",)
    life: Life | None


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int | str = 0, *, fifo: bool = False) -> None:
        self._running = False  # before the base class: it asks
        super().__init__()
        self._random = random.Random(f"{seed}/loop").random
        self._fifo = fifo
        self._now = 0.0
        self._soon: deque[SimHandle | SimTimer] = deque()
        self._timers: list[tuple[float, int, SimTimer]] = []
        self._timers_cancelled = 0
        self._sequence = 0  # numbers timers, tasks and futures
        self._events = 0
        self._events_when_time_moved = 0
        self._checks: list[Callable[[], object]] = []
        self._graveyard: list[SimTask[Any]] = []
        self._finishing: asyncio.Task[None] | None = None
        self._halted: BaseException | None = None
        self._life: Life | None = None  # whose callback runs
        self._stopped = False
        self._over = False

    # --- what the simulation adds -------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many callbacks have run."""
        return self._events

    def after_each(self, check: Callable[[], object]) -> None:
        """Call `check` after every callback: the place for invariants."""
        self._checks.append(check)

    def halt(self, reason: BaseException) -> None:
        """End the run after the present callback: `run_until_complete` raises `reason`."""
        if self._halted is None:
            self._halted = reason

    def end_life(self, life: Life) -> None:
        """Nothing that belongs to `life` runs again.

        Its tasks are kept until the loop is closed.  Left to the garbage collector they would
        run their `finally` blocks in the middle of someone else's callback.
        """
        life.alive = False
        self._graveyard += [task for task in self._tasks() if task.life is life]

    def pause_life(self, life: Life) -> None:
        """Nothing that belongs to `life` runs until `resume_life`; its timers may become due."""
        if life.held is None:
            life.held = []

    def resume_life(self, life: Life) -> None:
        held, life.held = life.held or [], None
        self._soon.extend(held)

    def run_until(self, condition: Callable[[], bool], *, limit_s: float = 3600.0) -> None:
        """Run until `condition` holds; raise `SimDeadlock` when it still does not at the limit."""
        limit = self.call_later(limit_s, lambda: None)
        self._run(lambda: condition() or self._now >= limit.when())
        limit.cancel()
        if not condition():
            raise SimDeadlock(f"not in {limit_s} simulated seconds\n{self._waiting()}")

    # --- asyncio's interface ------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimHandle(callback, args, self, context)
        handle.life = _life_of(context)
        if not self._over:
            self._soon.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = SimTimer(when, callback, args, self, context)
        timer.life = _life_of(context)
        if when <= self._now:
            self._soon.append(timer)
        elif not self._over:
            heapq.heappush(self._timers, (when, self._next_number(), timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(loop=self, number=self._next_number())

    def create_task(
        self,
        coro: AnyCoroutine[T],
        *,
        name: object = None,
        context: Context | None = None,
        **_options: Any,
    ) -> asyncio.Task[T]:
        text = None if name is None else str(name)
        return SimTask(coro, loop=self, number=self._next_number(), name=text, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> Any:
        raise NotImplementedError("simulated time has no threads: use Disk.in_background")

    def run_forever(self) -> None:
        self._stopped = False
        self._run(lambda: self._stopped)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        task = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]  # as asyncio does
        self._stopped = False
        self._run(lambda: self._stopped or task.done())
        if not task.done():
            raise RuntimeError("the loop was stopped before the future was done")
        return task.result()

    def stop(self) -> None:
        self._stopped = True

    def is_running(self) -> bool:
        return self._running

    def close(self) -> None:
        """End everything that still runs.  A second `close` does nothing."""
        if self._over:
            return
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        self._over = True
        for task in sorted({*self._tasks(), *self._graveyard}, key=lambda task: task.number):
            _close_coroutine(task.get_coro())
        self._graveyard.clear()
        self._soon.clear()
        self._timers.clear()
        super().close()

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """End the run; but a crash was told already, and the dead have no one to tell."""
        reason = context.get("exception")
        owner = getattr(context.get("future"), "life", self._life)
        if self._over or isinstance(reason, SimCrash) or (owner is not None and not owner.alive):
            return
        if reason is not None:
            reason.add_note(f"unhandled: {context.get('message')}")
            self.halt(reason)

    # --- the run ------------------------------------------------------------------------------

    def _run(self, finished: Callable[[], bool]) -> None:
        with self._as_running_loop():
            while not finished():
                if not self._soon:
                    self._move_time()
                    continue
                handle = self._take()
                life = handle.life
                if handle.cancelled() or (life is not None and not life.alive):
                    continue
                if life is not None and life.held is not None:
                    life.held.append(handle)
                    continue
                self._events += 1
                self._life = life
                handle._run()
                self._look_around()

    def _look_around(self) -> None:
        for check in self._checks:
            check()
        if self._halted is not None:
            reason, self._halted = self._halted, None
            raise reason
        if self._events - self._events_when_time_moved > CALLBACKS_WITHOUT_TIME_MAX:
            raise SimLivelock(
                f"{CALLBACKS_WITHOUT_TIME_MAX} callbacks ran at {self._now} s and time did not "
                f"move: something waits by asking again and again\n{self._waiting()}"
            )

    def _take(self) -> SimHandle | SimTimer:
        soon = self._soon
        if len(soon) > 1 and not self._fifo:
            soon.rotate(-int(self._random() * len(soon)))
        return soon.popleft()

    def _move_time(self) -> None:
        """Jump to the next moment at which anything is due, and make all of it ready."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise SimDeadlock(f"nothing is scheduled, so this wait never ends\n{self._waiting()}")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._events_when_time_moved = self._events
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if timer.cancelled():
                self._timers_cancelled -= 1
            else:
                self._soon.append(timer)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio tells each cancelled timer; those that are long in coming are swept out."""
        if handle.when() <= self._now:
            return  # it may have left the heap already
        self._timers_cancelled += 1
        if self._timers_cancelled > _CANCELLED_TIMERS_KEPT + len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    @contextlib.contextmanager
    def _as_running_loop(self) -> Iterator[None]:
        if self._over:
            raise RuntimeError("the loop is closed")
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("another event loop runs in this thread")
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finish_generator)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            self._life = None
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _finish_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._finishing = self.create_task(generator.aclose())  # held, or it may be collected

    def _next_number(self) -> int:
        self._sequence += 1
        return self._sequence

    def _tasks(self) -> list[SimTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted(tasks, key=lambda task: task.number)

    def _waiting(self) -> str:
        lines = [f"  {task.get_name()}: {_place_of(task)}" for task in self._tasks()]
        return "\n".join([f"at {self._now:.6f} s, tasks that wait:", *(lines or ["  none"])])


def run(main: Coroutine[Any, Any, T], *, seed: int | str = 0, fifo: bool = False) -> T:
    """As `asyncio.run`, in simulated time."""
    loop = SimLoop(seed, fifo=fifo)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def _life_of(context: Context | None) -> Life | None:
    return LIFE.get() if context is None else context.get(LIFE)


def _close_coroutine(coroutine: Any) -> None:
    """Run the `finally` blocks of a coroutine that never goes on.

    One that awaits in a `finally` block refuses to close; each refusal takes it one step further.
    """
    for _ in range(_CLOSING_ATTEMPTS):
        with contextlib.suppress(BaseException):  # rule-ok: its process is dead
            coroutine.close()
            return


def _place_of(task: asyncio.Task[Any]) -> str:
    """Where a task waits: its chain of awaits, and the line of the innermost one."""
    chain: list[str] = []
    place = "nowhere"
    at: Any = task.get_coro()
    while at is not None:
        frame = getattr(at, "cr_frame", None) or getattr(at, "gi_frame", None)
        if frame is None:
            break
        chain.append(frame.f_code.co_qualname)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
    return f"{' > '.join(chain)} ({place})"

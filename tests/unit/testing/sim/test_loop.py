"""Simulated time: jumps, order, and the waits that never end."""

import asyncio
import contextlib
from contextvars import copy_context

import pytest

from goqueue.testing.sim import SimDeadlock, SimLivelock, SimLoop, run
from goqueue.testing.sim import loop as loop_module
from goqueue.testing.sim.loop import LIFE, Life

Trace = list[tuple[float, str]]


async def busy(trace: Trace) -> None:
    """Tasks, locks, time-outs and cancellations, all at the same moments."""
    lock = asyncio.Lock()
    loop = asyncio.get_running_loop()

    async def worker(name: str) -> None:
        for _ in range(5):
            async with lock:
                trace.append((loop.time(), name))
            await asyncio.sleep(0.1)
        if name == "c":
            raise ValueError(name)
        try:
            await asyncio.sleep(100)
        finally:
            trace.append((loop.time(), f"{name} cancelled"))

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for name in "abcdefgh":
                group.create_task(worker(name))


def trace_of(seed: int, *, fifo: bool = False) -> Trace:
    trace: Trace = []
    run(busy(trace), seed=seed, fifo=fifo)
    return trace


def test_one_seed_is_one_order_of_events(seed: int):
    assert trace_of(seed) == trace_of(seed)


def test_another_seed_is_another_order():
    assert len({tuple(trace_of(seed)) for seed in range(10)}) > 5


def test_first_in_first_out_when_asked():
    assert [name for _, name in trace_of(1, fifo=True)][:8] == list("abcdefgh")


def test_time_jumps_to_the_next_timer():
    async def main() -> float:
        await asyncio.sleep(3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86_400):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 90_000


def test_a_wait_that_nothing_ends_is_reported_with_its_place():
    async def waits_for_nobody() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimDeadlock, match="waits_for_nobody"):
        run(waits_for_nobody())


def test_a_loop_that_asks_again_and_again_is_reported(monkeypatch: pytest.MonkeyPatch):
    async def spins() -> None:
        while True:  # noqa: ASYNC110  # the very mistake
            await asyncio.sleep(0)

    monkeypatch.setattr(loop_module, "CALLBACKS_WITHOUT_TIME_MAX", 1000)
    with pytest.raises(SimLivelock, match="spins"):
        run(spins())


def test_an_error_that_nobody_handles_ends_the_run():
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(100)

    with pytest.raises(ZeroDivisionError):
        run(main())


def test_checks_run_after_every_event():
    async def main() -> None:
        for _ in range(10):
            await asyncio.sleep(0.1)

    loop = SimLoop()
    times: list[float] = []
    loop.after_each(lambda: times.append(loop.time()))
    loop.run_until_complete(main())
    assert len(times) == loop.events
    loop.close()


def test_run_until_stops_when_the_condition_holds():
    loop = SimLoop()
    for second in range(20):
        loop.call_later(second, lambda: None)
    loop.run_until(lambda: loop.time() >= 5)
    assert loop.time() == 5
    with pytest.raises(SimDeadlock, match="10 simulated seconds"):
        loop.run_until(lambda: False, limit_s=10)
    loop.close()


def test_nothing_of_a_life_runs_after_its_end():
    ticks: list[str] = []

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                ticks.append("tick")
        finally:
            ticks.append("closed with the loop")

    loop = SimLoop()
    life = Life("a")
    context = copy_context()
    context.run(LIFE.set, life)
    task = loop.create_task(tick(), context=context)
    loop.run_until_complete(_sleep(3.5))
    loop.end_life(life)
    del task
    loop.run_until_complete(_sleep(10))
    assert ticks == ["tick"] * 3
    loop.close()
    assert ticks[-1] == "closed with the loop"


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_threads_are_refused():
    async def main() -> None:
        await asyncio.to_thread(lambda: None)

    with pytest.raises(NotImplementedError, match="in_background"):
        run(main())


def test_an_abandoned_generator_is_closed():
    closed: list[float] = []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append(asyncio.get_running_loop().time())

    async def main() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(5)

    run(main())
    assert closed == [1.0]

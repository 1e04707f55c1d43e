"""Blocking work for an event loop: its results, its errors, and its end."""

import asyncio
import threading

import pytest

from goqueue.runtime.disk_threads import DiskThreads


@pytest.fixture
def threads() -> DiskThreads:
    return DiskThreads(2)


async def test_work_is_done_elsewhere_and_its_result_comes_back(threads):
    here = threading.get_ident()
    assert await threads.run(threading.get_ident) != here
    assert await asyncio.gather(*(threads.run(lambda n=n: n * n) for n in range(20))) == [
        n * n for n in range(20)
    ]
    threads.close()


async def test_an_error_is_raised_where_it_is_awaited(threads):
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: "still there") == "still there"
    threads.close()


async def test_what_was_not_begun_can_be_cancelled_and_what_was_begun_goes_on():
    threads, here, go = DiskThreads(1), threading.Event(), threading.Event()
    seen: list[str] = []

    def work() -> None:
        here.set()
        go.wait(10)
        seen.append("begun")

    begun = threads.run(work)
    waiting = threads.run(lambda: seen.append("waiting"))
    waiting.cancel()
    assert here.wait(10)
    begun.cancel()
    go.set()
    threads.close()
    assert seen == ["begun"]


async def test_a_close_waits_for_what_was_handed_over(threads):
    seen: list[int] = []
    done = [threads.run(lambda number=number: seen.append(number)) for number in range(50)]
    threads.close()
    assert len(done) == 50
    assert sorted(seen) == list(range(50))
    with pytest.raises(RuntimeError, match="closed"):
        threads.run(lambda: None)


def test_a_loop_that_is_gone_costs_no_thread():
    threads, go = DiskThreads(1), threading.Event()

    async def leave() -> None:
        unawaited = threads.run(lambda: go.wait(10))
        assert not unawaited.done()

    asyncio.run(leave())
    go.set()
    assert asyncio.run(_one(threads)) == 1
    threads.close()


async def _one(threads: DiskThreads) -> int:
    return await threads.run(lambda: 1)

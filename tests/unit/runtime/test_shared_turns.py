"""Short work shares turns of threads; long work does not wait for others."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from goqueue.runtime import shared_turns
from goqueue.runtime.disk_threads import DiskThreads
from goqueue.runtime.shared_turns import SharedTurns


@pytest.fixture
def threads() -> Iterator[DiskThreads]:
    made = DiskThreads(4)
    yield made
    made.close()


async def test_what_comes_during_a_turn_is_the_next_turn(threads: DiskThreads):
    turns, gate = SharedTurns(threads), threading.Event()
    ran: list[tuple[int, int]] = []

    def work(number: int) -> None:
        if number == 0:
            gate.wait(30)
        ran.append((number, threading.get_ident()))

    pieces = [turns.run(lambda: work(0))]
    await asyncio.sleep(0)
    pieces += [turns.run(lambda number=number: work(number)) for number in range(1, 5)]  # type: ignore[misc]
    await asyncio.sleep(0)
    assert not ran
    gate.set()
    await asyncio.gather(*pieces)
    assert [number for number, _ in ran] == [0, 1, 2, 3, 4]
    assert len({thread for _, thread in ran[1:]}) == 1, "one turn"


async def test_an_error_is_that_of_its_piece(threads: DiskThreads):
    def fail() -> None:
        raise OSError("no")

    turns = SharedTurns(threads)
    found = await asyncio.gather(
        turns.run(lambda: None), turns.run(fail), turns.run(lambda: None), return_exceptions=True
    )
    assert [type(each) for each in found] == [type(None), OSError, type(None)]


async def test_long_pieces_run_side_by_side(threads: DiskThreads, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_turns, "LONG_SECONDS", 0.0)
    turns, all_there = SharedTurns(threads), threading.Barrier(4, timeout=30)
    await turns.run(lambda: None)  # it is known from the last ones what is long

    def wait() -> None:
        all_there.wait()

    await asyncio.gather(*(turns.run(wait) for _ in range(4)))
    assert not all_there.broken

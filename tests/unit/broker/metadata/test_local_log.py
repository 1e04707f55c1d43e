"""The consensus log of one voter: its terms, and what it takes of whom.

What it has in common with others is in tests/unit/cluster/consensus.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.metadata.local_log import TERM_FILE, LocalLog
from goqueue.cluster.consensus import Index, Term
from goqueue.model.errors import Fenced
from goqueue.testing.sim import SimClock, SimDisk, SimLoop, run
from tests.unit.broker.brokers import LonePartition

DIRECTORY = "/snapshots"


def play(story: Callable[[SimDisk], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(SimDisk(0))

    run(main())


def opened(disk: SimDisk) -> LocalLog:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return LocalLog(LonePartition(disk), disk, SimClock(loop), DIRECTORY)


def test_terms_rise_also_over_restarts():
    async def story(disk: SimDisk) -> None:
        terms = [(await opened(disk).lead()).term for _ in range(3)]
        log = opened(disk.crash())
        terms += [(await log.lead()).term for _ in range(2)]
        assert terms == [1, 2, 3, 4, 5]

    play(story)


def test_on_a_full_disk_a_term_begins_all_the_same():
    async def story(disk: SimDisk) -> None:
        log = opened(disk)
        await log.lead()
        disk.fill_up(0)
        assert (await log.lead()).term == 2
        assert (await log.lead()).term == 3, "two terms of one process differ"

    play(story)


def test_who_leads_no_more_neither_appends_nor_stores():
    async def story(disk: SimDisk) -> None:
        log = opened(disk)
        former = (await log.lead()).term
        now = (await log.lead()).term
        with pytest.raises(Fenced, match=f"term {former} has ended, it is {now}"):
            await log.append(former, Index(0), [b"value"])
        with pytest.raises(Fenced):
            await log.store_snapshot(former, Index(0), [[b"value"]])
        with pytest.raises(Fenced):
            await log.append(Term(now + 1), Index(0), [b"value"])
        assert await log.end() == 0

    play(story)


def test_a_leader_that_is_not_at_the_end_is_a_bug():
    async def story(disk: SimDisk) -> None:
        log = opened(disk)
        term = (await log.lead()).term
        with pytest.raises(AssertionError, match="not at the end"):
            await log.append(term, Index(1), [b"value"])

    play(story)


def test_leading_begins_behind_what_is_there_and_says_whether_a_snapshot_is():
    async def story(disk: SimDisk) -> None:
        log = opened(disk)
        leadership = await log.lead()
        assert (leadership.end, leadership.has_snapshot) == (0, False)
        await log.append(leadership.term, Index(0), [b"1", b"2"])
        await log.store_snapshot(leadership.term, Index(2), [[b"both"]])
        again = await opened(disk.crash()).lead()
        assert (again.end, again.has_snapshot) == (2, True)

    play(story)


def test_the_term_is_beside_the_snapshots():
    async def story(disk: SimDisk) -> None:
        await opened(disk).lead()
        assert disk.exists(f"{DIRECTORY}/{TERM_FILE}")

    play(story)

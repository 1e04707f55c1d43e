"""What every engine of the consensus log must do, as scenarios that run on each of them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from goqueue.cluster.consensus import ConsensusLog, Entries, Index, Snapshot, Term
from goqueue.model.errors import Fenced, QuorumUnavailable, Uncertain
from tests.unit.cluster.consensus.quorums import Quorum, append, first_of, read_all, read_to

Scenario = Callable[[Quorum], Awaitable[None]]


async def entries_keep_their_order(quorum: Quorum) -> None:
    log = quorum.connect()
    term = (await log.lead()).term
    assert await log.end() == 0
    outcomes = [
        asyncio.ensure_future(log.append(term, Index(3 * n), [b"%d-%d" % (n, k) for k in range(3)]))
        for n in range(20)
    ]
    await asyncio.gather(*outcomes)
    expected = [b"%d-%d" % (n, k) for n in range(20) for k in range(3)]
    assert await log.end() == 60
    assert await read_all(quorum.connect()) == expected


async def a_follower_starts_at_any_index(quorum: Quorum) -> None:
    log = quorum.connect()
    term = (await log.lead()).term
    values = [b"%d" % n for n in range(12)]
    for start in range(0, 12, 4):
        await log.append(term, Index(start), values[start : start + 4])
    follower = quorum.connect()
    for start in range(12):
        assert await read_to(follower, Index(12), Index(start)) == values[start:]


async def a_follower_sees_what_comes(quorum: Quorum) -> None:
    leader, follower = quorum.connect(), quorum.connect()
    term = (await leader.lead()).term
    seen: list[bytes] = []
    changed = asyncio.Event()

    async def follow() -> None:
        async for each in follower.follow(Index(0)):
            assert isinstance(each, Entries)
            assert each.first == len(seen)
            seen.extend(each.values)
            changed.set()

    task = asyncio.ensure_future(follow())
    for n in range(5):
        await append(leader, term, b"%d" % n)
        while len(seen) <= n:
            await changed.wait()
            changed.clear()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert seen == [b"%d" % n for n in range(5)]


async def a_newer_term_fences_the_older(quorum: Quorum) -> None:
    old, new = quorum.connect(), quorum.connect()
    old_term = (await old.lead()).term
    await old.append(old_term, Index(0), [b"old"])
    new_term = (await new.lead()).term
    assert new_term > old_term
    with pytest.raises(Fenced):
        await old.append(old_term, Index(1), [b"too late"])
    await new.append(new_term, Index(1), [b"new"])
    with pytest.raises(Fenced):
        await old.append(old_term, Index(2), [b"too late again"])
    with pytest.raises(Fenced):
        await old.store_snapshot(old_term, Index(1), [[b"stale"]])
    assert await read_all(quorum.connect()) == [b"old", b"new"]


async def a_leader_may_lead_again(quorum: Quorum) -> None:
    log = quorum.connect()
    first = (await log.lead()).term
    await log.append(first, Index(0), [b"a"])
    second = (await log.lead()).term
    assert second > first
    with pytest.raises(Fenced):
        await log.append(first, Index(1), [b"no"])
    await log.append(second, Index(1), [b"b"])
    assert await read_all(log) == [b"a", b"b"]


async def a_term_is_taken_after_the_one_that_is_known(quorum: Quorum) -> None:
    one, other = quorum.connect(), quorum.connect()
    assert await one.term() == 0
    first = (await one.lead(Term(0))).term
    with pytest.raises(Fenced):
        await other.lead(Term(0))
    assert await other.term() == first
    await one.append(first, Index(0), [b"it goes on"])
    second = (await other.lead(first)).term
    assert second == await one.term() > first
    with pytest.raises(Fenced):
        await one.append(first, Index(1), [b"too late"])
    assert await read_all(quorum.connect()) == [b"it goes on"]


async def a_large_append_is_one(quorum: Quorum) -> None:
    """A single value of it may be too large for what an engine takes at a time, too."""
    leader, follower = quorum.connect(), quorum.connect()
    term = (await leader.lead()).term
    small, large = [b"before"], [b"%04d" % n * 500 for n in range(1500)] + [b"x" * 1_200_000]
    await leader.append(term, Index(0), small)
    news = follower.follow(Index(1))
    first = asyncio.ensure_future(anext(news))
    outcomes = [
        asyncio.ensure_future(leader.append(term, Index(1), large)),
        asyncio.ensure_future(leader.append(term, Index(1 + len(large)), [b"after"])),
    ]
    await asyncio.gather(*outcomes)
    seen = await first
    assert isinstance(seen, Entries)
    assert list(seen.values)[: len(large)] == large
    await news.aclose()
    assert await leader.end() == len(large) + 2
    assert await read_all(quorum.connect()) == [*small, *large, b"after"]
    assert await read_to(follower, await leader.end(), Index(700)) == [*large[699:], b"after"]
    await leader.store_snapshot(term, Index(1 + len(large)), [[b"S"]])
    assert await read_all(quorum.connect()) == [b"S", b"after"]


async def leaders_race(quorum: Quorum) -> None:
    """Whatever was told committed is there once, in one place; whatever was fenced is not."""
    committed: list[bytes] = []
    refused: list[bytes] = []
    unknown: list[bytes] = []

    async def contend(name: int) -> None:
        log = quorum.connect()
        for attempt in range(6):
            with contextlib.suppress(QuorumUnavailable):
                lead = await log.lead()
                for number in range(3):
                    value = b"%d/%d/%d" % (name, attempt, number)
                    await _note(log, lead.term, Index(lead.end + number), value)

    async def _note(log: ConsensusLog, term: Term, at: Index, value: bytes) -> None:
        try:
            await log.append(term, at, [value])
        except Fenced:
            refused.append(value)
        except Uncertain:
            unknown.append(value)
        else:
            committed.append(value)

    await asyncio.gather(*(contend(name) for name in range(3)))
    reader = quorum.connect()
    await reader.lead()  # what is under way takes effect no more
    found = await read_all(reader)
    assert len(set(found)) == len(found)
    assert set(committed) <= set(found) <= {*committed, *unknown}
    assert not set(found) & set(refused)
    assert committed or unknown


async def a_snapshot_takes_the_place_of_entries(quorum: Quorum) -> None:
    log = quorum.connect()
    term = (await log.lead()).term
    for n in range(4):
        await log.append(term, Index(2 * n), [b"%d" % (2 * n), b"%d" % (2 * n + 1)])
    await log.store_snapshot(term, Index(6), [[b"0 to"], [b"5"]])
    await log.append(term, Index(8), [b"8"])
    follower = quorum.connect()
    first = await first_of(follower, Index(0))
    assert isinstance(first, Snapshot)
    assert (first.index, list(first.values)) == (6, [b"0 to", b"5"])
    assert first.bytes > 0
    assert await read_to(follower, Index(9)) == [b"0 to", b"5", b"6", b"7", b"8"]
    assert await read_to(follower, Index(9), Index(6)) == [b"6", b"7", b"8"]
    assert await read_to(follower, Index(9), Index(7)) == [b"7", b"8"]
    assert await log.end() == 9


async def snapshots_follow_snapshots(quorum: Quorum) -> None:
    """At the very end of the log too; the log goes on behind it."""
    log = quorum.connect()
    term = (await log.lead()).term
    for n in range(6):
        await log.append(term, Index(n), [b"%d" % n])
        await log.store_snapshot(term, Index(n + 1), [[b"up to %d" % n]])
    assert await log.end() == 6
    other = quorum.connect()
    term = (await other.lead()).term
    await other.append(term, Index(6), [b"6"])
    assert await read_all(quorum.connect()) == [b"up to 5", b"6"]


async def a_snapshot_may_be_large(quorum: Quorum) -> None:
    log = quorum.connect()
    term = (await log.lead()).term
    await log.append(term, Index(0), [b"x"])
    slices = [[b"%06d" % n + b"." * 1000 for n in range(k, k + 100)] for k in range(0, 1500, 100)]
    assert await log.store_snapshot(term, Index(1), slices) > 1_500_000
    await log.append(term, Index(1), [b"y"])
    expected = [value for some in slices for value in some]
    assert await read_all(quorum.connect()) == [*expected, b"y"]


async def a_snapshot_waits_for_its_entries(quorum: Quorum) -> None:
    """It is taken ahead of the log, and counts when that has caught up."""
    log = quorum.connect()
    term = (await log.lead()).term
    outcome = asyncio.ensure_future(log.append(term, Index(0), [b"x"]))
    await log.store_snapshot(term, Index(1), [[b"X"]])
    await outcome
    assert await read_all(quorum.connect()) == [b"X"]


async def what_is_committed_outlives_a_restart(quorum: Quorum) -> None:
    log = quorum.connect()
    term = (await log.lead()).term
    await log.append(term, Index(0), [b"a", b"b"])
    await log.store_snapshot(term, Index(1), [[b"A"]])
    await log.append(term, Index(2), [b"c"])
    await quorum.restart()
    log = quorum.connect()
    again = (await log.lead()).term
    assert again > term
    assert await log.end() == 3
    await log.append(again, Index(3), [b"d"])
    assert await read_to(quorum.connect(), Index(4), Index(2)) == [b"c", b"d"]


SCENARIOS: Final[list[Scenario]] = [
    entries_keep_their_order,
    a_follower_starts_at_any_index,
    a_follower_sees_what_comes,
    a_newer_term_fences_the_older,
    a_leader_may_lead_again,
    a_term_is_taken_after_the_one_that_is_known,
    a_large_append_is_one,
    leaders_race,
    a_snapshot_takes_the_place_of_entries,
    snapshots_follow_snapshots,
    a_snapshot_may_be_large,
    a_snapshot_waits_for_its_entries,
    what_is_committed_outlives_a_restart,
]

"""A connection that breaks, a leader that refuses, a lane that is throttled."""

import asyncio

import msgspec
import pytest

from goqueue.broker.replicas import CatchUpQuota
from goqueue.cluster.throttles import Copy, Throttle
from goqueue.model.errors import GoQueueError, Uncertain
from tests.unit.broker.replicas.replicas import (
    LEADER,
    Pair,
    content,
    key_of,
    leader_role,
    tell,
    write,
)


@pytest.mark.parametrize("failure", [ConnectionResetError(), TimeoutError(), Uncertain("no word")])
def test_after_a_failure_a_new_session_is_begun(failure: Exception):
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        pair.failure = failure
        await asyncio.sleep(3.0)
        pair.failure = None
        pair.requests.clear()
        await pair.leader.wait_committed(write(pair.leader, "b"))
        assert pair.requests[0].session_epoch == 0
        assert not pair.problems

    tell(story)


def test_a_leader_that_forgot_the_session_is_told_all_again():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        pair.sessions.close()
        await pair.leader.wait_committed(write(pair.leader, "b"))
        assert not pair.problems

    tell(story)


def test_requests_are_numbered_over_both_connections():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        for _ in range(5):
            await pair.leader.wait_committed(write(pair.leader, "a"))
        numbers = [request.fetch_number for request in pair.requests]
        assert numbers == list(range(len(numbers)))

    tell(story)


def test_what_lies_behind_comes_in_pieces_and_commits_of_others_do_not_wait():
    async def story(pair: Pair) -> None:
        for number in range(40):
            write(pair.leaders[0], f"{number} {'.' * 100}")
        pair.fetchers.follow(key_of(1), pair.followers[1])
        await pair.leaders[1].wait_committed(write(pair.leaders[1], "a"))
        pair.fetchers.follow(key_of(0), pair.followers[0])
        await pair.leaders[1].wait_committed(write(pair.leaders[1], "b"))
        await pair.caught_up()
        assert content(pair.followers[0]) == content(pair.leaders[0])

    tell(story, partitions=2)


def throttled(pair: Pair, rate: int) -> CatchUpQuota:
    copy = Copy(is_reassigned=True, throttle=Throttle("a rate", rate))
    return CatchUpQuota(pair.clock, lambda _topic, _index, _node: copy)


async def write_some(pair: Pair) -> None:
    """About 7000 bytes that the follower, which is not in sync, lacks."""
    pair.leader.take_role(leader_role(1, isr=(LEADER,)))
    for number in range(40):
        write(pair.leader, f"{number} {'.' * 100}")
    await pair.leader.wait_committed(write(pair.leader, "the last"))


def test_a_follower_that_catches_up_keeps_to_its_rate():
    async def story(pair: Pair) -> None:
        await write_some(pair)
        pair.fetchers._quota = quota = throttled(pair, 1000)
        pair.follow_all()
        began = asyncio.get_running_loop().time()
        await pair.caught_up()
        took = asyncio.get_running_loop().time() - began
        assert 5.0 < took < 9.0
        assert quota.reassigned_bytes == len(content(pair.leader))

    tell(story, 1, **{"min.insync.replicas": "1"})


def test_a_leader_sends_no_faster_than_its_rate_to_those_that_catch_up():
    async def story(pair: Pair) -> None:
        await write_some(pair)
        quota = throttled(pair, 1000)
        pair.sessions._leader = msgspec.structs.replace(pair.sessions._leader, quota=quota)
        pair.follow_all()
        began = asyncio.get_running_loop().time()
        await pair.caught_up()
        took = asyncio.get_running_loop().time() - began
        assert 5.0 < took < 9.0
        assert len(pair.requests) < 200  # it does not ask in a hurry
        (progress,) = pair.leader.followers
        assert progress.copy_rate is not None

    tell(story, 1, **{"min.insync.replicas": "1"})


def test_replicas_in_sync_are_not_throttled():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        await pair.leader.wait_committed(write(pair.leader, "a"))
        await asyncio.sleep(1.0)
        quota = throttled(pair, 1)
        pair.sessions._leader = msgspec.structs.replace(pair.sessions._leader, quota=quota)
        for lanes in pair.fetchers._lanes.values():
            lanes[1]._quota = quota
        began = asyncio.get_running_loop().time()
        for _ in range(10):
            await pair.leader.wait_committed(write(pair.leader, "." * 500))
        assert asyncio.get_running_loop().time() - began < 1.0

    tell(story)


def test_a_rate_of_zero_stops_copies_until_it_is_raised():
    async def story(pair: Pair) -> None:
        await write_some(pair)
        rates = {"now": 0}
        pair.fetchers._quota = CatchUpQuota(
            pair.clock, lambda *_: Copy(throttle=Throttle("a rate", rates["now"]))
        )
        pair.follow_all()
        await asyncio.sleep(5.0)
        assert pair.follower.log.end_offset == 0
        rates["now"] = 1_000_000
        await pair.caught_up()

    tell(story, 1, **{"min.insync.replicas": "1"})


def test_a_leader_that_cannot_read_is_asked_again_and_that_is_told_once():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        errors: list[GoQueueError] = pair.problems
        path = pair.leader.log.active.log.path
        write(pair.leader, "b")
        pair.leader_disk.flip_bit(path, pair.leader.log.active.size - 3)
        await pair.until(lambda: bool(errors))
        await asyncio.sleep(2.0)
        assert pair.follower.log.end_offset == 1
        assert len(errors) == 1

    tell(story)

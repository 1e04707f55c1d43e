"""What is copied from whom: new epochs, other leaders, the end."""

import asyncio

import pytest

from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.cluster.replication import Follower, Leader, Offline
from goqueue.model.errors import LeadershipLost
from goqueue.model.ids import Epoch, NodeId
from tests.unit.broker.replicas.replicas import (
    LEADER,
    Pair,
    content,
    follower_role,
    key_of,
    leader_role,
    tell,
    write,
)


def test_a_follower_has_what_its_leader_has_and_the_leader_commits_it():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        offset = write(pair.leader, "a", "b")
        await pair.leader.wait_committed(offset)
        await pair.caught_up()
        assert content(pair.follower) == content(pair.leader)
        assert pair.follower.log.synced_offset == 2

    tell(story)


def test_commits_wait_for_the_follower():
    async def story(pair: Pair) -> None:
        offset = write(pair.leader, "a")
        await pair.leader.flush()
        waiting = pair.leader.wait_committed(offset)
        await asyncio.sleep(1.0)
        assert not waiting.done()
        pair.follow_all()
        await waiting

    tell(story)


def test_many_partitions_share_two_connections():
    async def story(pair: Pair) -> None:
        for partition in pair.leaders:
            write(partition, "before")
        pair.follow_all()
        await pair.caught_up()
        for partition in pair.leaders:
            write(partition, "after")
        await pair.caught_up()
        assert len(pair.connections) == 2
        named = [sum(len(t.partitions) for t in request.topics) for request in pair.requests]
        assert max(named) <= len(pair.leaders)

    tell(story, partitions=20)


def test_an_idle_follower_names_nothing_again():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        offset = write(pair.leader, "a")
        await pair.leader.wait_committed(offset)
        await pair.caught_up()
        await asyncio.sleep(1.0)
        pair.requests.clear()
        await asyncio.sleep(2.0)
        assert pair.requests
        assert all(not request.topics for request in pair.requests)

    tell(story, partitions=5)


def test_after_stop_nothing_is_asked_and_nothing_is_written():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        await pair.fetchers.stop(key_of())
        pair.requests.clear()
        write(pair.leader, "b")
        await asyncio.sleep(1.0)
        assert not any(request.topics for request in pair.requests)
        assert pair.follower.log.end_offset == 1
        assert all(connection.is_closed for connection in pair.connections)

    tell(story)


def test_a_log_is_cut_to_the_end_although_nothing_else_is_copied_from_the_leader(monkeypatch):
    """Given up in the middle, it would be read-only: nobody knows what is on the disk."""
    cutting, may_end, ended = asyncio.Event(), asyncio.Event(), []
    sync = ReplicaLog.sync

    async def sync_slowly(self: ReplicaLog) -> None:
        if self.key == key_of(0):
            cutting.set()
            await may_end.wait()
        await sync(self)
        ended.append(self.key)

    monkeypatch.setattr(ReplicaLog, "sync", sync_slowly)

    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await cutting.wait()
        stopping = asyncio.ensure_future(pair.fetchers.stop(key_of(0)))
        await asyncio.sleep(0.01)
        await pair.fetchers.stop(key_of(1))
        may_end.set()
        await stopping
        assert key_of(0) in ended
        await asyncio.sleep(0.1)
        assert all(connection.is_closed for connection in pair.connections)

    tell(story, partitions=2)


def test_a_node_that_stops_lets_a_log_be_cut_to_the_end(monkeypatch):
    cutting, may_end, ended = asyncio.Event(), asyncio.Event(), []
    sync = ReplicaLog.sync

    async def sync_slowly(self: ReplicaLog) -> None:
        cutting.set()
        await may_end.wait()
        await sync(self)
        ended.append(self.key)

    monkeypatch.setattr(ReplicaLog, "sync", sync_slowly)

    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await cutting.wait()
        closing = asyncio.ensure_future(pair.fetchers.close())
        await asyncio.sleep(0.5)
        assert not closing.done()
        may_end.set()
        await closing
        assert ended == [key_of(0)]
        assert all(connection.is_closed for connection in pair.connections)

    tell(story)


def test_a_role_that_ends_ends_its_acks_at_once():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        pair.requests.clear()
        pair.follower.take_role(Offline("somebody else is elected", Epoch(2)))
        write(pair.leader, "b")
        await asyncio.sleep(1.0)
        assert not any(request.topics for request in pair.requests)
        assert pair.follower.log.end_offset == 1

    tell(story)


def test_in_a_new_epoch_of_the_same_leader_it_goes_on():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        pair.leader.take_role(leader_role(2))
        pair.follower.take_role(follower_role(2))
        await pair.fetchers.stop(key_of())
        pair.fetchers.follow(key_of(), pair.follower)
        await pair.leader.wait_committed(write(pair.leader, "b"))

    tell(story)


def test_a_leader_that_does_not_know_of_its_epoch_yet_is_asked_again():
    async def story(pair: Pair) -> None:
        pair.follower.take_role(follower_role(2))
        pair.follow_all()
        await asyncio.sleep(1.0)
        pair.leader.take_role(leader_role(2))
        await pair.leader.wait_committed(write(pair.leader, "a"))
        assert not pair.problems

    tell(story)


def test_who_waits_for_a_commit_hears_that_another_node_leads():
    async def story(pair: Pair) -> None:
        waiting = pair.leader.wait_committed(write(pair.leader, "a"))
        pair.leader.take_role(Follower(NodeId(2), Epoch(2)))
        with pytest.raises(LeadershipLost):
            await waiting

    tell(story)


def test_a_partition_that_comes_later_does_not_wait_for_the_others_to_have_news():
    """Its first fetch interrupts the one that waits at the leader."""

    async def story(pair: Pair) -> None:
        pair.fetchers.follow(key_of(0), pair.followers[0])
        write(pair.leaders[0], "a")
        await pair.until(lambda: pair.leaders[0].log.high_watermark == 1)
        await asyncio.sleep(0.25)  # a fetch waits at the leader now
        began = asyncio.get_running_loop().time()
        pair.fetchers.follow(key_of(1), pair.followers[1])
        await pair.until(lambda: any(request.interrupted for request in pair.requests))
        await pair.leaders[1].wait_committed(write(pair.leaders[1], "b"))
        assert asyncio.get_running_loop().time() - began < 0.15

    tell(story, partitions=2)


def test_a_leader_hears_of_acks_of_who_is_not_in_sync():
    async def story(pair: Pair) -> None:
        pair.leader.take_role(leader_role(1, isr=(LEADER,)))
        assert isinstance(pair.leader.role, Leader)
        pair.follow_all()
        await pair.until(lambda: bool(pair.acks))
        assert pair.acks[0] is pair.leader

    tell(story)

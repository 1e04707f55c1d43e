"""What a follower makes of its leader's answers."""

import asyncio

import pytest

from goqueue.cluster.replication import Offline
from goqueue.log import open_log
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.errors import StorageFailed
from goqueue.model.ids import Epoch, Offset
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from tests.unit.broker.replicas.replicas import (
    NOW,
    TOPIC,
    Pair,
    content,
    follower_role,
    key_of,
    leader_role,
    tell,
    write,
)


def give(pair: Pair, count: int, epoch: int = 0, *, to_leader: bool = True) -> None:
    """Records that both have, of an older epoch."""
    for partition in (pair.leader, pair.follower) if to_leader else (pair.follower,):
        for _ in range(count):
            offset = partition.log.end_offset
            data = batches.encode([Record(0, NOW, None, f"{epoch}/{offset}".encode())])
            batches.stamp(data, batches.header_at(data, 0), offset, epoch)
            partition.log.append_as_follower(data, leader_epoch=Epoch(epoch), now=NOW)


async def lead(pair: Pair, epoch: int) -> None:
    await pair.leader.note_epoch(pair.leader.leader_epoch)
    pair.leader.take_role(leader_role(epoch))


def test_what_the_leader_lacks_is_cut():
    async def story(pair: Pair) -> None:
        give(pair, 5)
        give(pair, 3, to_leader=False)
        write(pair.leader, "new")
        pair.follow_all()
        await pair.caught_up()
        assert content(pair.follower) == content(pair.leader)
        assert not pair.problems

    tell(story)


def test_committed_records_are_not_cut_and_the_replica_freezes():
    async def story(pair: Pair) -> None:
        give(pair, 5)
        give(pair, 3, to_leader=False)
        await pair.follower.flush()
        pair.follower.follow_watermark(Offset(7))
        before = content(pair.follower)
        write(pair.leader, "new")
        pair.follow_all()
        await pair.until(lambda: bool(pair.problems))
        await asyncio.sleep(1.0)
        assert content(pair.follower) == before
        assert isinstance(pair.follower.role, Offline)
        assert "missing committed records" in pair.follower.role.reason
        assert len(pair.problems) == 1

    tell(story)


def test_after_an_unclean_election_they_are():
    async def story(pair: Pair) -> None:
        give(pair, 5)
        give(pair, 3, to_leader=False)
        await pair.follower.flush()
        pair.follower.follow_watermark(Offset(7))
        write(pair.leader, "new")
        pair.fetchers.follow(key_of(), pair.follower, is_unclean=True)
        await pair.caught_up()
        assert content(pair.follower) == content(pair.leader)

    tell(story)


def test_of_logs_that_are_not_synced_with_each_commit_they_are_too():
    """A power cut took them from the leader, which is nobody's fault."""

    async def story(pair: Pair) -> None:
        unsynced = topic_settings({"flush": "interval"})
        pair.leader.log.settings = unsynced
        pair.follower.log.settings = unsynced
        give(pair, 5)
        give(pair, 3, to_leader=False)
        pair.follower.follow_watermark(Offset(7))
        write(pair.leader, "new")
        pair.follow_all()
        await pair.caught_up()
        assert content(pair.follower) == content(pair.leader)

    tell(story)


def test_what_was_not_synced_is_before_it_counts():
    """A node that led and has written something becomes a follower."""

    async def story(pair: Pair) -> None:
        give(pair, 3)
        assert pair.follower.log.needs_sync
        pair.follow_all()
        await pair.until(lambda: bool(pair.requests))
        [wanted] = pair.requests[0].topics[0].partitions
        assert wanted.fetch_offset == 3
        assert pair.follower.log.synced_offset == 3

    tell(story)


def test_who_fell_behind_the_leaders_start_begins_there():
    async def story(pair: Pair) -> None:
        give(pair, 4)
        for number in range(30):
            write(pair.leader, f"{number} {'.' * 100}")
        await pair.leader.flush()
        pair.leader.log.high_watermark = pair.leader.log.end_offset
        await pair.leader.remove_before(Offset(20))
        pair.follow_all()
        await pair.caught_up()
        assert pair.follower.log.start_offset == 20
        assert not pair.problems

    tell(story)


def test_the_start_is_followed():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        for number in range(30):
            write(pair.leader, f"{number} {'.' * 100}")
        await pair.leader.flush()
        await pair.caught_up()
        await pair.leader.remove_before(Offset(20))
        await pair.until(lambda: pair.follower.log.start_offset == 20)

    tell(story)


def test_where_the_leader_had_compacted_gaps_are_taken():
    async def story(pair: Pair) -> None:
        write(pair.leader, "a")
        for offset in (5, 9):  # as compaction left them; the topic is not compacted any more
            data = batches.encode([Record(0, NOW, None, b"x")])
            batches.stamp(data, batches.header_at(data, 0), offset, 1)
            pair.leader.log.allow_gaps(Offset(10))
            pair.leader.log.append_as_follower(data, leader_epoch=Epoch(1), now=NOW)
        pair.leader.demand_flush()
        pair.follow_all()
        await pair.caught_up()
        assert content(pair.follower) == content(pair.leader)
        assert not pair.problems
        settings = pair.follower.log.settings
        disk = pair.disk.crash()
        log, recovery = open_log(disk, "/log/0", settings, Replica(TOPIC, 0))
        assert (log.end_offset, recovery.problems) == (10, [])

    tell(story)


def test_a_full_disk_stops_one_replica_until_there_is_room():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        pair.disk.fill_up(0)
        waiting = pair.leader.wait_committed(write(pair.leader, "b"))
        await pair.until(lambda: bool(pair.problems))
        await asyncio.sleep(3.0)
        assert len(pair.problems) == 1, "it is told once"
        assert not waiting.done()
        asked = [
            p.partition_max_bytes for r in pair.requests for t in r.topics for p in t.partitions
        ]
        assert 0 in asked, "the leader is told that there is no room"
        pair.disk.make_room()
        await waiting

    tell(story)


def test_a_disk_that_fails_stops_its_replica_for_good_and_no_other():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        for partition in pair.leaders:
            write(partition, "a")
        await pair.caught_up()
        pair.disk.fail_sync("/log/0/*")
        write(pair.leaders[0], "b")
        await pair.until(lambda: bool(pair.problems))
        assert isinstance(pair.problems[0], StorageFailed)
        await pair.leaders[1].wait_committed(write(pair.leaders[1], "c"))
        pair.requests.clear()
        write(pair.leaders[0], "d")
        await asyncio.sleep(1.0)
        named = {p.partition for r in pair.requests for t in r.topics for p in t.partitions}
        assert 0 not in named

    tell(story, partitions=2)


@pytest.mark.parametrize("flush", ["commit", "never"])
def test_what_counts_as_stored_follows_from_the_topics_flush(flush: str):
    async def story(pair: Pair) -> None:
        pair.follow_all()
        pair.disk.slow_syncs(0.2, 0.2)
        await pair.leader.wait_committed(write(pair.leader, "a"))
        assert pair.follower.log.synced_offset == (1 if flush == "commit" else 0)

    tell(story, flush=flush)


def test_the_ledger_beside_a_log_is_told_once():
    async def story(pair: Pair) -> None:
        pair.follow_all()
        write(pair.leader, "a")
        await pair.caught_up()
        assert not pair.ledgers
        pair.with_ledger.add(pair.leader)
        pair.leader.wake_readers()
        await pair.until(lambda: bool(pair.ledgers))
        write(pair.leader, "b")
        await pair.caught_up()
        assert [each.key for each in pair.ledgers] == [key_of()]

    tell(story)


def test_a_node_that_led_and_wrote_nothing_takes_what_is_older():
    async def story(pair: Pair) -> None:
        give(pair, 2)
        await lead(pair, 1)
        pair.follower.take_role(Offline("about to lead", Epoch(1)))
        await pair.follower.note_epoch(Epoch(1))
        pair.leader.take_role(leader_role(2))
        pair.follower.take_role(follower_role(2))
        pair.follow_all()
        await pair.leader.wait_committed(write(pair.leader, "a"))
        assert content(pair.follower) == content(pair.leader)

    tell(story)

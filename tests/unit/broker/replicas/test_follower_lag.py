"""How far followers are behind, as their leader measures it."""

import asyncio

from goqueue.broker.replicas import follower_lags
from goqueue.broker.storage.bundle import Bundle
from goqueue.cluster.replication import FollowerFetch
from goqueue.model.ids import NodeEpoch, Offset
from tests.unit.broker.replicas.replicas import (
    FOLLOWER,
    LEADER,
    TOPIC,
    Pair,
    content,
    follower_role,
    leader_role,
    tell,
    write,
)


def bundle_of(pair: Pair) -> Bundle:
    bundle = Bundle("topic", TOPIC, pair.leader.index, leader_role(1, isr=(LEADER,)))
    bundle._logs[""] = pair.leader
    pair.leader.take_role(leader_role(1, isr=(LEADER,)))
    return bundle


def test_what_a_follower_lacks_is_measured_by_what_it_asked_for():
    async def story(pair: Pair) -> None:
        bundle = bundle_of(pair)
        for number in range(40):
            write(pair.leader, f"{number:04} {'.' * 100}")
        (before,) = follower_lags(bundle)
        assert (before.node_id, before.offset, before.end_offset) == (FOLLOWER, 0, 40)
        assert before.bytes_left == before.bytes_in_all == len(content(pair.leader))
        assert not before.is_in_sync
        await asyncio.sleep(2.0)
        asked = FollowerFetch(
            node=FOLLOWER,
            node_epoch=NodeEpoch(1),
            synced_offset=Offset(30),
            end_offset=Offset(30),
        )
        pair.leader.ack(asked)
        pair.leader.note_copied(FOLLOWER, 5000)
        await asyncio.sleep(5.0)
        (after,) = follower_lags(bundle)
        assert after.offsets_left == 10
        assert 0 < after.bytes_left < before.bytes_left / 2
        assert after.bytes_per_second == 1000.0
        assert after.lag_ms == 7000

    tell(story)


def test_only_a_leader_knows():
    async def story(pair: Pair) -> None:
        bundle = Bundle("topic", TOPIC, pair.follower.index, follower_role())
        bundle._logs[""] = pair.follower
        assert follower_lags(bundle) == []

    tell(story)

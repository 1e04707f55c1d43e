"""Replicas that move, and how far they have come: each partition's leader is asked.

Nothing is guessed.  What a replica has is the offset that it last asked its leader for, which is
its word that all before is on its disk; the rate is that of the bytes which the leader sent.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.cluster.services import ClusterServices
from goqueue.broker.replicas import FollowerLag, follower_lags
from goqueue.cluster import NO_LEADER, Topic
from goqueue.cluster.metadata import PartitionState
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, TopicPartition

ASK_SECONDS = 3.0


class FollowersOf(Verb[list[list[FollowerLag]]], frozen=True):
    """How far the followers of these partitions have come, which the other node leads."""

    name = "followers_of"
    reply_type = list[list[FollowerLag]]

    partitions: list[TopicPartition]


class Move(msgspec.Struct, frozen=True):
    """A partition whose replicas move."""

    topic: Topic
    partition: int
    state: PartitionState
    copies: Sequence[FollowerLag] = ()  # of those that are added; none while nobody tells
    problem: str = ""  # why nobody tells


class Reassignments:
    def __init__(self, broker: ClusterServices) -> None:
        self._broker = broker
        if broker.others is not None:
            broker.others.serve(FollowersOf, self._followers_here)

    async def under_way(self) -> list[Move]:
        """All of them, in order."""
        metadata = self._broker.metadata
        return await self.measure(
            [
                Move(topic, index, state)
                for topic in self._broker.topics(internal=True)
                for index, state in enumerate(metadata.partitions.of(topic.topic_id))
                if state.adding or state.removing
            ]
        )

    async def measure(self, moves: Sequence[Move]) -> list[Move]:
        """With the copies that their leaders know of."""
        by_leader: defaultdict[NodeId, list[int]] = defaultdict(list)
        for place, move in enumerate(moves):
            if move.state.adding:
                by_leader[move.state.leader].append(place)
        found = list(moves)
        for leader, places in by_leader.items():
            asked = [
                TopicPartition(moves[each].topic.name, moves[each].partition) for each in places
            ]
            try:
                told = await self._ask(leader, asked)
            except GoQueueError as error:
                for place in places:
                    found[place] = msgspec.structs.replace(found[place], problem=str(error))
                continue
            for place, lags in zip(places, told, strict=True):
                adding = moves[place].state.adding
                copies = [each for each in lags if each.node_id in adding]
                found[place] = msgspec.structs.replace(found[place], copies=copies)
        return found

    async def _ask(self, leader: NodeId, places: list[TopicPartition]) -> list[list[FollowerLag]]:
        others = self._broker.others
        if leader == NO_LEADER:
            raise GoQueueError("no replica that is in sync answers: nothing is copied")
        if others is None or leader == self._broker.node_id:
            return [self._lags(each) for each in places]
        return await others.ask(leader, FollowersOf(places), ASK_SECONDS)

    async def _followers_here(self, _node_id: NodeId, verb: FollowersOf) -> list[list[FollowerLag]]:
        return [self._lags(each) for each in verb.partitions]

    def _lags(self, place: TopicPartition) -> list[FollowerLag]:
        bundle = self._broker.partitions.used_bundle(*place)
        return [] if bundle is None else follower_lags(bundle)

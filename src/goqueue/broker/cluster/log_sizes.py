"""How many bytes each node has of each partition: every node that answers is asked."""

import asyncio
from collections.abc import Mapping

from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.cluster.services import ClusterServices
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, TopicIdPartition

ASK_SECONDS = 10.0

SizesHere = dict[str, dict[int, int]]  # by topic and partition
SizesByNode = dict[NodeId, SizesHere]


class LogSizesOf(Verb[SizesHere], frozen=True):
    """Bytes of all partitions that have a replica on the other node."""

    name = "log_sizes"
    reply_type = SizesHere


class LogSizes:
    def __init__(self, broker: ClusterServices) -> None:
        self._broker = broker
        if broker.others is not None:
            broker.others.serve(LogSizesOf, self._answer)

    async def by_node(self) -> SizesByNode:
        """Of nodes that answer; the others are left out."""
        broker, others = self._broker, self._broker.others
        found: SizesByNode = {broker.node_id: await self._here()}
        if others is None:
            return found
        asked = others.live
        answers = await asyncio.gather(
            *(others.ask(each, LogSizesOf(), ASK_SECONDS) for each in asked),
            return_exceptions=True,
        )
        for node_id, answer in zip(asked, answers, strict=True):
            if isinstance(answer, GoQueueError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[node_id] = answer
        return found

    async def by_partition(self) -> Mapping[TopicIdPartition, int]:
        """As the leader has it, or whoever answers."""
        sizes, metadata = await self.by_node(), self._broker.metadata
        found: dict[TopicIdPartition, int] = {}
        for topic in self._broker.topics(internal=True):
            for index, state in enumerate(metadata.partitions.of(topic.topic_id)):
                for node_id in (state.leader, *state.replicas):
                    size = sizes.get(node_id, {}).get(topic.name, {}).get(index)
                    if size is not None:
                        found[TopicIdPartition(topic.topic_id, index)] = size
                        break
        return found

    async def _answer(self, _node_id: NodeId, _verb: LogSizesOf) -> SizesHere:
        return await self._here()

    async def _here(self) -> SizesHere:
        broker = self._broker
        found: SizesHere = {}
        for topic in broker.topics(internal=True):
            states = broker.metadata.partitions.of(topic.topic_id)
            mine = [i for i, state in enumerate(states) if broker.node_id in state.replicas]
            if mine:
                found[str(topic.name)] = await broker.partitions.log_bytes(topic, mine)
        return found

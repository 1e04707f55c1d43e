"""The partition that dead letters are moved to, wherever it is led.

Each move is one batch, with a producer id and epoch that no other batch has, and sequence 0.  So
whoever leads the target can say whether the batch is there, and does not take it twice: a late one
is a repetition, or has an older epoch than a batch that came meanwhile.
"""

from typing import Final, Protocol

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.machine_host import Committed
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError, TopicNotFound, Uncertain
from goqueue.model.ids import NodeId, Offset, TopicId
from goqueue.queue import Move

SCAN_BYTES: Final = 1024 * 1024
FIND_SECONDS: Final = 60.0  # the target is read from its end at the time of the decision


class MoveTarget(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def index(self) -> int: ...

    async def find_end(self) -> Offset:
        """Before any batch that is not committed yet: a new leader may lack those."""
        ...

    async def find(self, move: Move) -> Offset | None:
        """Where the move's batch is, durably; None: it was not written."""
        ...

    async def append(self, data: bytearray) -> tuple[Offset, Committed]:
        """The first offset of the batch, and when it is durable (None: it is).

        Raises `Uncertain` when it may have been written; after other refusals it was not.
        """
        ...


class MoveHere:
    def __init__(self, services: BrokerServices, partition: Partition) -> None:
        assert partition.topic_id is not None, "nobody moves anything to the broker's own topics"
        self.topic, self.index = partition.topic, int(partition.index)
        self.topic_id = partition.topic_id
        self._services = services
        self._partition = partition

    async def find_end(self) -> Offset:
        return self._partition.log.high_watermark

    async def find(self, move: Move) -> Offset | None:
        partition = self._partition
        partition.check_leader()
        await partition.wait_committed(Offset(partition.log.end_offset - 1))
        return await find_move(partition, move)

    async def append(self, data: bytearray) -> tuple[Offset, Committed]:
        await self._services.check_schemas(self._partition, data, refuses=True)
        appended = self._services.append(self._partition, data, is_checked=True)
        return appended.first_offset, self._partition.wait_committed(appended.last_offset)


async def find_move(target: Partition, move: Move) -> Offset | None:
    """Where the move's batch is in what is committed."""
    log, mark = target.log, (move.producer_id, move.producer_epoch)
    offset = Offset(max(move.behind, log.start_offset))
    while offset < log.high_watermark:
        chunk = await target.read(offset, SCAN_BYTES, log.high_watermark)
        for each in batches.headers(chunk.data):
            if (each.producer_id, each.producer_epoch) == mark:
                return each.base_offset
        offset = chunk.next_offset
    return None


# --- other nodes ----------------------------------------------------------------------------------


class FindEnd(Verb[Offset], frozen=True):
    name = "find_end"
    reply_type = Offset

    topic: str
    topic_id: TopicId
    partition: int


class FindMove(Verb[Offset | None], frozen=True):
    name = "find_move"
    reply_type = Offset | None

    move: Move


class AppendMove(Verb[Offset], frozen=True):
    name = "append_move"
    reply_type = Offset

    topic: str
    topic_id: TopicId
    partition: int
    data: bytes


class MoveElsewhere:
    def __init__(self, others: OtherNodes, leader: NodeId, topic: Topic, index: int) -> None:
        self.topic: str = topic.name
        self.topic_id, self.index = topic.topic_id, index
        self._others = others
        self._leader = leader

    async def find_end(self) -> Offset:
        verb = FindEnd(self.topic, self.topic_id, self.index)
        return await self._others.ask(self._leader, verb)

    async def find(self, move: Move) -> Offset | None:
        return await self._others.ask(self._leader, FindMove(move), FIND_SECONDS)

    async def append(self, data: bytearray) -> tuple[Offset, Committed]:
        verb = AppendMove(self.topic, self.topic_id, self.index, bytes(data))
        return await self._others.ask(self._leader, verb), None


class MovesHere:
    """What this node does for others that move dead letters."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def serve(self, others: OtherNodes) -> None:
        others.serve(FindEnd, self.find_end)
        others.serve(FindMove, self.find)
        others.serve(AppendMove, self.append)

    async def find_end(self, _: NodeId, verb: FindEnd) -> Offset:
        target = await self._target(verb.topic, verb.topic_id, verb.partition)
        return await target.find_end()

    async def find(self, _: NodeId, verb: FindMove) -> Offset | None:
        target = await self._target(verb.move.topic, verb.move.topic_id, verb.move.partition)
        return await target.find(verb.move)

    async def append(self, _: NodeId, verb: AppendMove) -> Offset:
        target = await self._target(verb.topic, verb.topic_id, verb.partition)
        offset, committed = await target.append(bytearray(verb.data))
        if committed is not None:
            try:
                await committed
            except GoQueueError as error:
                raise Uncertain(f"written, and not known to be committed: {error}") from error
        return offset

    async def _target(self, topic: str, topic_id: TopicId, index: int) -> MoveHere:
        partition = await self._services.partition(topic, index)
        if partition.topic_id != topic_id:
            raise TopicNotFound(f"topic {topic!r} was deleted meanwhile")
        return MoveHere(self._services, partition)


async def move_target(services: BrokerServices, topic: str, index: int) -> MoveTarget:
    """Raises `NotLeader` while nobody leads it."""
    found, others = services.topic(topic), services.others
    found.check_partition(index)
    if others is not None:
        leader = others.leader(found, index)
        if leader != others.node_id:
            return MoveElsewhere(others, leader, found, index)
    return MoveHere(services, await services.partition(topic, index))

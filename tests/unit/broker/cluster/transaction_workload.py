"""Producers and readers of transactions on three nodes: node 1 coordinates, all of them lead."""

import asyncio

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import GoQueueError, NodeUnreachable, NotLeader
from goqueue.model.ids import GroupId, NodeId, Offset, TopicName, TopicPartition
from goqueue.testing.sim.loop import SimCrash
from goqueue.txn import ProducerIdentity
from tests.sim.transaction_history import Place
from tests.sim.transaction_world import PARTITIONS, TOPICS, Producer, Workload, batch_of
from tests.unit.broker.cluster.cluster_world import HOSTS, ClusterWorld

GROUP = GroupId("workers")  # whose offsets are committed with transactions
INPUT = "input"
SECONDS_MAX = 4.0  # for one step, as a client would wait


async def append(
    broker: Broker, name: str, who: ProducerIdentity, partition: Partition, data: bytearray
) -> int:
    """As Produce does at the partition's leader; gives the offset when it is committed."""
    at, admitted = TopicPartition(TopicName(partition.topic), int(partition.index)), None
    if broker.transactions.coordinates(name):
        await broker.transactions.wait_ready(name)
        admitted = broker.transactions.admit(name, who, at, adds=True)
    else:
        await broker.transaction_peers.admit(name, who, partition, adds=True)
    appended = broker.append(partition, data)
    await partition.wait_committed(appended.last_offset)
    if admitted is not None:
        await admitted
    return appended.first_offset


class ClusterWorkload(Workload):
    def __init__(self, nodes: ClusterWorld, transactions: int = 8) -> None:
        super().__init__(nodes.world, transactions)
        self.nodes = nodes
        self._messages: dict[Broker, TransactionMessages] = {}

    @property
    def places(self) -> list[Place]:
        return [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]

    def create_topics(self) -> None:
        """Every node leads some of them."""
        for number, topic in enumerate((*TOPICS, INPUT)):
            assignments = [
                [NodeId((2 * number + index + each) % 3 + 1) for each in range(3)]
                for index in range(PARTITIONS + 1)
            ]
            self.world.run(
                self.nodes.controller.create_topic(
                    topic, partitions=PARTITIONS + 1, assignments=assignments
                )
            )
        self.world.run_until(
            lambda: all(self.leader_of(place) is not None for place in self.places), limit_s=30
        )

    def leader_of(self, place: Place) -> Broker | None:
        """The node that leads, and knows it; None while there is none."""
        metadata = self.nodes.metadata
        if metadata is None:
            return None
        state = metadata.partition(metadata.topic(place[0]).topic_id, place[1])
        found = self.nodes.brokers.get(HOSTS.get(state.leader, ""))
        partition = None if found is None else found.partitions.find_open(*place)
        return found if partition is not None and partition.leads else None

    def _coordinator(self, transactional_id: str = "tx") -> Broker:
        """The one that leads the id's partition of `__transactions`."""
        for broker in self.nodes.brokers.values():
            if broker.transactions.coordinates(transactional_id):
                return broker
        raise NodeUnreachable("nobody coordinates")

    def _leader(self, place: Place) -> Broker:
        found = self.leader_of(place)
        if found is None:
            raise NotLeader(f"{place} has no leader")
        return found

    # --- producing --------------------------------------------------------------------------------

    async def run(self) -> None:
        reading = asyncio.ensure_future(self._read_on())
        await asyncio.gather(*(self._produce_on(each) for each in self.producers))
        reading.cancel()

    async def _produce_on(self, producer: Producer) -> None:
        while producer.finished < self.transactions:
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await self._one_step(self._coordinator(producer.name), producer)
            except (GoQueueError, TimeoutError, SimCrash):
                if self.random.random() < 0.3:
                    producer.forget()
            await asyncio.sleep(self.random.uniform(0, 0.3))

    async def _end(self, broker: Broker, producer: Producer, commits: bool) -> None:
        self._check_alive(broker)
        await super()._end(broker, producer, commits)

    async def _add_offset(self, broker: Broker, producer: Producer) -> None:
        self._check_alive(broker)
        await super()._add_offset(broker, producer)

    def _check_alive(self, broker: Broker) -> None:
        """A process that died since the step began is an object all the same, and would answer."""
        if all(each is not broker for each in self.nodes.brokers.values()):
            raise NodeUnreachable("it died")

    async def _send(
        self, broker: Broker, producer: Producer, place: Place, sequence: int, value: bytes
    ) -> None:
        written, who = producer.open, producer.who
        assert written is not None
        assert who is not None
        producer.sending = (place, sequence, value)
        written.writes[value] = place
        at = TopicPartition(TopicName(place[0]), place[1])
        for _ in range(self.random.choice((1, 1, 2))):
            self._check_alive(broker)
            if not producer.bumps_epoch:  # the older protocol adds partitions by a request
                await broker.transactions.add_partitions(producer.name, who, [at])
            if producer.bumps_epoch or self.random.random() < 0.5:
                leader = self._leader(place)
                partition = await leader.partition(*place)
                data = batch_of(leader, who, sequence, value)
                offset = await append(leader, producer.name, who, partition, data)
            else:
                offset = await self._publish(broker, producer.name, who, place, sequence, value)
            if written.acked.setdefault(value, offset) != offset:
                self.problems.append(f"{value!r}: told {written.acked[value]}, then {offset}")
        producer.sequences[place] = sequence + 1
        producer.sending = None

    async def _publish(
        self,
        broker: Broker,
        name: str,
        who: ProducerIdentity,
        place: Place,
        sequence: int,
        value: bytes,
    ) -> int:
        """As HTTP clients do, at the coordinator; gives the offset."""
        for each in self.nodes.brokers.values():
            if each not in self._messages:
                self._messages[each] = TransactionMessages(each)  # and it serves the others
        message = OutgoingMessage(value, partition=place[1])
        done = await self._messages[broker].publish(name, who, place[0], message, sequence=sequence)
        return done.offset

    # --- reading ----------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        while True:
            for place in self.places:
                try:
                    async with asyncio.timeout(SECONDS_MAX):
                        await self._read_some(self._leader(place), place)
                except (GoQueueError, TimeoutError, SimCrash):
                    pass  # its node may have died under it
            await asyncio.sleep(self.random.uniform(0, 0.2))

    def finish_over_nodes(self) -> None:
        """When all nodes are there: everything ends by itself; then read it all."""
        self.world.run_until(self._is_quiet, limit_s=600)
        for place in self.places:
            self.world.run(self._read_to_end(self._leader(place), place))
        self.world.run_until(lambda: self._group_coordinator() is not None, limit_s=60)
        coordinator = self._group_coordinator()
        assert coordinator is not None
        self._check_offsets(coordinator)

    def _group_coordinator(self) -> Broker | None:
        """None while leaders are moved back to where they should be."""
        brokers = self.nodes.brokers.values()
        return next((each for each in brokers if each.groups.coordinates(GROUP)), None)

    def _is_quiet(self) -> bool:
        brokers = list(self.nodes.brokers.values())
        found = [each.transactions for each in brokers if each.transactions.is_coordinating]
        led = sorted(shard for each in found for shard in each.shards)
        if len(brokers) < len(self.nodes.hosts) or led != list(range(self.nodes.coordinators)):
            return False
        if any(each.ahead.prepared or each.ahead.ongoing for each in found):
            return False
        if any(each.groups.pending_transactions() for each in brokers):
            return False
        return all(self._is_settled(place) for place in self.places)

    def _is_settled(self, place: Place) -> bool:
        leader = self.leader_of(place)
        partition = None if leader is None else leader.partitions.find_open(*place)
        return partition is not None and (
            partition.log.stable_offset == partition.log.high_watermark == partition.log.end_offset
        )


async def read(workload: ClusterWorkload, place: Place) -> list[bytes | None]:
    """What a read-committed reader sees."""
    partition = await workload._leader(place).partition(*place)
    page = await read_page(partition, Offset(0), limit=100, bytes_max=100_000)
    return [record.value for record in page.records]

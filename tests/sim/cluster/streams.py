"""Idempotent producers and a reader: what was acknowledged is there, once, where it was said to be.

A producer repeats a batch until it is acknowledged, wherever the leader is by then.

    lost              acknowledged, and not there at the end
    moved             acknowledged at one offset, and found at another
    duplicate         one value at two offsets
    inconsistent      a reader saw one value at an offset, and another one later
    out of order      a producer's values in a partition are not in the order of sending
"""

import asyncio
from collections import defaultdict

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.model import batch as batches
from goqueue.model.ids import Offset
from goqueue.model.record import Record
from tests.sim.cluster.clients import Clients, Refused
from tests.unit.broker.cluster.cluster_world import ClusterWorld

TOPIC = "events"
PARTITIONS = 2
PRODUCERS = 2
Place = tuple[str, int]


class Streams(Clients):
    def __init__(self, nodes: ClusterWorld, batches_each: int = 12) -> None:
        super().__init__(nodes, "streams")
        self.batches_each = batches_each
        self.acked: dict[tuple[int, bytes], int] = {}  # by partition and value: the offset
        self.seen: dict[tuple[int, int], bytes] = {}  # by partition and offset
        self._positions: defaultdict[int, int] = defaultdict(int)

    async def set_up(self) -> None:
        await self.create(TOPIC, PARTITIONS)

    async def run(self) -> None:
        reading = asyncio.ensure_future(self._read_on())
        await asyncio.gather(*(self._produce_on(number) for number in range(PRODUCERS)))
        reading.cancel()

    # --- producing --------------------------------------------------------------------------------

    async def _produce_on(self, number: int) -> None:
        sequences: defaultdict[int, int] = defaultdict(int)
        producer_id = await self._reserve()
        for count in range(self.batches_each):
            partition = self.draw.randrange(PARTITIONS)
            values = [
                b"%d/%d/%d" % (number, count, each) for each in range(self.draw.choice((1, 3)))
            ]
            producer = (producer_id, 0, sequences[partition])
            await self._repeat(partition, values, producer)
            sequences[partition] += len(values)
            await self.rest()

    async def _reserve(self) -> int:
        while True:
            try:
                return await self.ask(self.somewhere(), lambda node: node.reserve_producer_id())
            except Refused:
                await self.rest()

    async def _repeat(
        self, partition: int, values: list[bytes], producer: tuple[int, int, int]
    ) -> None:
        async def append(broker: Broker) -> int:
            found = await broker.partition(TOPIC, partition)
            found.check_enough_replicas()
            now = broker.environment.clock.now()
            data = batches.encode(
                [Record(0, now, None, each) for each in values], producer=producer
            )
            appended = broker.append(found, data)
            await found.wait_committed(appended.last_offset)
            return appended.first_offset

        while True:
            try:
                offset = await self.ask(self.leader_of(TOPIC, partition), append)
            except Refused:
                await self.rest(0.5)
                continue
            for index, value in enumerate(values):
                self.acked[partition, value] = offset + index
            return

    # --- reading ----------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        while True:
            for partition in range(PARTITIONS):
                try:
                    await self._read_some(partition)
                except Refused:
                    continue
            await self.rest()

    async def _read_some(self, partition: int) -> None:
        start = Offset(self._positions[partition])

        async def read(broker: Broker) -> tuple[list[Record], int]:
            found = await broker.partition(TOPIC, partition)
            page = await read_page(found, start, limit=10, bytes_max=10_000)
            return page.records, page.next_offset

        records, self._positions[partition] = await self.ask(self.leader_of(TOPIC, partition), read)
        for record in records:
            self.seen[partition, record.offset] = record.value or b""

    # --- the end ----------------------------------------------------------------------------------

    async def judge(self) -> None:
        for partition in range(PARTITIONS):
            self._judge(partition, await self._read_all(partition))

    async def _read_all(self, partition: int) -> dict[int, bytes]:
        async def read(broker: Broker) -> list[Record]:
            found = await broker.partition(TOPIC, partition)
            page = await read_page(found, Offset(0), limit=100_000, bytes_max=100_000_000)
            return page.records

        records = await self.ask(self.leader_of(TOPIC, partition), read)
        return {record.offset: record.value or b"" for record in records}

    def _judge(self, partition: int, final: dict[int, bytes]) -> None:
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for offset, value in final.items():
            places[value].append(offset)
        for value, found in places.items():
            if len(found) > 1:
                self.note(f"duplicate: {value!r} at {found} of {partition}")
        for (index, value), offset in self.acked.items():
            if index == partition and offset not in places[value]:
                self.note(f"lost or moved: {value!r} at {offset}, found at {places[value]}")
        for (index, offset), value in self.seen.items():
            if index == partition and final.get(offset) != value:
                self.note(f"inconsistent: {offset} was {value!r}, is {final.get(offset)!r}")
        self._judge_order(list(final.values()))

    def _judge_order(self, values: list[bytes]) -> None:
        for number in range(PRODUCERS):
            own = [tuple(map(int, value.split(b"/"))) for value in values]
            own = [each for each in own if each[0] == number]
            if own != sorted(own):
                self.note(f"out of order: {own}")

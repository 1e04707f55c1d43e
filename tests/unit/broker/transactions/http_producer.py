"""A producer of transactions as HTTP has it, in a cluster whose partitions are led apart."""

from collections.abc import Awaitable
from typing import TypeVar

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.model.ids import Offset
from tests.unit.broker.cluster.apart import Apart

NAME = "writer"

ResultT = TypeVar("ResultT")


class HttpProducer:
    """As an HTTP client that asks the coordinator, which is node 1."""

    def __init__(self, apart: Apart) -> None:
        self.apart = apart
        self.broker = apart["a"]
        self.messages = {host: TransactionMessages(apart[host]) for host in ("a", "b", "c")}
        self.transactions = self.broker.transactions
        apart.world.run_until(self._is_coordinated, limit_s=30)
        self.who = self.run(self.transactions.init(NAME, timeout_ms=60_000))

    def _is_coordinated(self) -> bool:
        metadata = self.broker.metadata
        found = metadata.find("__transactions")
        if found is None or not self.transactions.is_coordinating:
            return False
        return all(len(each.isr) == 3 for each in metadata.partitions.of(found.topic_id))

    def run(self, work: Awaitable[ResultT]) -> ResultT:
        async def result() -> ResultT:
            return await work

        return self.apart.world.run(result())

    def begin(self) -> None:
        self.run(self.transactions.begin(NAME, self.who))

    def publish(self, value: str, partition: int, sequence: int = -1) -> tuple[int, bool]:
        message = OutgoingMessage(value.encode(), partition=partition)
        done = self.run(
            self.messages["a"].publish(NAME, self.who, "orders", message, sequence=sequence)
        )
        assert done.partition == partition
        return done.offset, done.duplicate

    def publish_many(self, *values: str) -> list[tuple[int, int]]:
        """The first to partition 0, and so on."""
        messages = [
            OutgoingMessage(each.encode(), partition=place % 3) for place, each in enumerate(values)
        ]
        done = self.run(self.messages["a"].publish_many(NAME, self.who, "orders", messages))
        return [(each.partition, each.offset) for each in done]

    def end(self, *, commits: bool) -> None:
        self.run(self.transactions.end(NAME, self.who, commits=commits, bumps_epoch=False))

    def read(self) -> set[str]:
        return {
            value
            for index, host in enumerate(("a", "b", "c"))
            for value in self.run(_read(self.apart[host], index))
        }


async def _read(broker: Broker, index: int) -> list[str]:
    partition = await broker.partition("orders", index)
    page = await read_page(partition, Offset(0), limit=1_000, bytes_max=2**20)
    return [(each.value or b"").decode() for each in page.records]

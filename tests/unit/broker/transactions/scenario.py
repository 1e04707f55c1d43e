"""Scenarios of transactions as text (`tests/scenarios.py`), on a simulated broker.

`a`, `b` … are clients, and their transactional ids; `A` is another process with the id of `a`.
They speak the newer protocol (KIP-890): a write adds its partition by itself, and each transaction
has an epoch of its own.  With `old` they speak the older one.

    a init [old] [timeout=60s]      InitProducerId
    a send paid [orders/0]          Produce; AddPartitionsToTxn before it, if the client is old
    a offset 5 [orders/0]           TxnOffsetCommit for the group `billing`
    a receive, a ack                a message of the queue `jobs`; its ack with the transaction
    a commit, a abort               EndTxn
    a commit again                  the same request as before: the answer was lost
    plain offset 5 [orders/0]       OffsetCommit of the group, outside of transactions
    publish job [jobs]              a message without a transaction

    read [orders/0]                 what a read_committed reader sees
    log [orders/0]                  the batches of the partition, markers among them
    offset [orders/0]               where the group is, and what is pending
    queue                           how many messages of `jobs` are in flight, and acked
    records                         what the coordinator wrote to its log since the last `records`
    describe a                      the state of the transactional id
    markers lost, markers sent      from now on participants do (not) get their markers
    advance 10s                     time passes
    power cut                       the broker loses what was not synced, and starts again
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.read import read_page
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model import batch as batches
from goqueue.model import markers
from goqueue.model.errors import StorageFailed
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.queue.settings import QueueSettings
from goqueue.testing.sim.world import World
from goqueue.txn import Participant, ProducerIdentity
from goqueue.txn.records import decode
from tests import queue_verbs
from tests.scenarios import milliseconds
from tests.sim.transaction_world import batch_of
from tests.unit.broker.scenario import Answer, BrokerScenario

BILLING = GroupId("billing")
WORKERS = GroupId("workers")
Words = tuple[str, ...]


class Client:
    def __init__(self, name: str) -> None:
        self.name = name.lower()  # the transactional id
        self.is_old = False
        self.who: ProducerIdentity | None = None
        self.before: ProducerIdentity | None = None  # as it was when it asked for the last end
        self.sequences: dict[TopicPartition, int] = {}
        self.receipt = ""


class ScenarioWorld(BrokerScenario):
    def __init__(self, world: World) -> None:
        self.clients: dict[str, Client] = {}
        super().__init__(world)

    async def prepare(self, broker: Broker) -> None:
        for topic in ("orders", "jobs"):
            if not broker.has_topic(topic):
                await broker.create_topic(topic, partitions=2)
        await broker.queues.configure(WORKERS, QueueSettings(visibility_ms=30_000))

    def answer(self, first: str, *rest: str) -> Answer:
        if first in OF_THE_WORLD:
            return OF_THE_WORLD[first](self, *rest)
        client = self.clients.setdefault(first, Client(first))
        return OF_CLIENTS[rest[0]](self, first, client, *rest[1:])

    # --- clients ----------------------------------------------------------------------------------

    async def init(self, says: str, client: Client, *words: str) -> list[str]:
        client.is_old = "old" in words
        options = dict(word.split("=") for word in words if "=" in word)
        timeout_ms = milliseconds(options.get("timeout", "60s"))
        client.who = await self.broker.transactions.init(client.name, timeout_ms=timeout_ms)
        client.sequences = {}
        return [f"{says} is {identity(client.who)}"]

    async def send(
        self, says: str, client: Client, value: str, where: str = "orders/0"
    ) -> list[str]:
        at, who, transactions = place(where), known(client), self.broker.transactions
        partition = await self.broker.partition(*at)
        await transactions.wait_ready(client.name)
        if client.is_old:
            transactions.announce_partitions_soon(client.name, who, [at])
        admitted = transactions.admit(client.name, who, at, adds=not client.is_old)
        sequence = client.sequences.get(at, 0)
        appended = self.broker.append(
            partition, batch_of(self.broker, who, sequence, value.encode())
        )
        await partition.wait_committed(appended.last_offset)
        if admitted is not None:
            await admitted
        client.sequences[at] = sequence + 1
        return [f"{says} sent {value} to {where}"]

    async def commit_offset(
        self, says: str, client: Client, offset: str, where: str = "orders/0"
    ) -> list[str]:
        request = commit_request(offset, where)
        if client.is_old:
            await self.broker.transactions.add_group(client.name, known(client), BILLING)
        await self.broker.transactions.add_offsets(
            client.name, known(client), request, adds_group=not client.is_old
        )
        return [f"{says} will commit {offset} in {where}"]

    async def receive(self, says: str, client: Client) -> list[str]:
        (job,) = await queue_verbs.receive(
            self.broker.queues, [TopicName("jobs")], WORKERS, client.name, max_messages=1, wait_ms=0
        )
        client.receipt = job.receipt
        return [f"{says} received {(job.record.value or b'').decode()}"]

    async def ack(self, says: str, client: Client) -> list[str]:
        transactions = self.broker.transactions
        if transactions.ahead.get(client.name).state != "ongoing":
            await transactions.begin(client.name, known(client))
        refused = await transactions.add_acks(client.name, known(client), [client.receipt])
        return [f"{says} {'was refused' if refused else 'will ack'}"]

    async def commit(self, says: str, client: Client, *words: str) -> list[str]:
        return await self._end(says, client, words, commits=True)

    async def abort(self, says: str, client: Client, *words: str) -> list[str]:
        return await self._end(says, client, words, commits=False)

    async def _end(self, says: str, client: Client, words: Words, *, commits: bool) -> list[str]:
        if "again" not in words:
            client.before = known(client)
        assert client.before is not None
        after = await self.broker.transactions.end(
            client.name,
            client.before,
            commits=commits,
            bumps_epoch=not client.is_old,
            waits_for_markers=False,
        )
        await asyncio.sleep(0.5)  # for the markers, however long a sync takes here
        if after != client.who:
            client.sequences = {}
        client.who = after
        return [f"{says} {'committed' if commits else 'aborted'}, is {identity(after)}"]

    # --- outside of transactions ------------------------------------------------------------------

    async def plain(self, _: str, offset: str, where: str = "orders/0") -> list[str]:
        await self.broker.groups.commit(commit_request(offset, where))
        return [f"the group committed {offset} in {where}"]

    async def publish(self, value: str, topic: str = "jobs") -> list[str]:
        message = OutgoingMessage(value.encode(), partition=0)
        await Messages(self.broker).publish(topic, [message])
        return [f"published {value} to {topic}"]

    # --- looking ----------------------------------------------------------------------------------

    async def read(self, where: str = "orders/0") -> list[str]:
        partition = await self.broker.partition(*place(where))
        await partition.settle()
        page = await read_page(partition, Offset(0), limit=100, bytes_max=100_000)
        values = [(record.value or b"").decode() for record in page.records]
        return [f"{where}: {' '.join(values) or 'nothing'}"]

    async def log(self, where: str = "orders/0") -> list[str]:
        partition = await self.broker.partition(*place(where))
        chunk = await partition.read(Offset(0), 100_000, partition.log.end_offset)
        return [f"  {line}" for line in shown(bytes(chunk.data))] or ["  empty"]

    async def offset(self, where: str = "orders/0") -> list[str]:
        at, groups = place(where), self.broker.groups
        found = groups.committed_offsets(BILLING).get(at)
        is_pending = at in groups.host.ahead.pending_offsets.of(BILLING)
        pending = ", more may come" if is_pending else ""
        return [f"the group is at {'no offset' if found is None else found.offset}{pending}"]

    async def queue(self) -> list[str]:
        (stats,) = await self.broker.queues.stats(WORKERS)
        return [f"in flight {stats.in_flight}, acked {stats.totals.acked}"]

    async def records(self) -> list[str]:
        host = self.broker.transactions.host
        host.write_deferred()
        values = await self.new_values(host._journal)
        return [f"  {kind}" for kind in map(record_text, values)] or ["  nothing"]

    def describe(self, name: str) -> list[str]:
        found = self.broker.transactions.ahead.get(name)
        names = [*(f"{topic}/{index}" for topic, index in sorted(found.partitions))]
        names += [f"group {each}" for each in sorted(found.groups)]
        names += [f"queue {topic}/{index}" for topic, index in sorted(found.ledgers)]
        with_them = f", with {', '.join(names)}" if names else ""
        return [f"{name} is {found.state}, epoch {found.epoch}{with_them}"]

    # --- the world --------------------------------------------------------------------------------

    def markers(self, what: str) -> list[str]:
        participants = self.broker.transactions._participants
        if what == "lost":
            participants.end = _lose  # type: ignore[method-assign]
        else:
            del participants.end  # the class has it
        return ["ok"]


def _lose(participant: Participant, marker: Marker) -> asyncio.Future[None]:
    raise StorageFailed("the marker was lost")


OF_CLIENTS: dict[str, Callable[..., Answer]] = {
    "init": ScenarioWorld.init,
    "send": ScenarioWorld.send,
    "offset": ScenarioWorld.commit_offset,
    "receive": ScenarioWorld.receive,
    "ack": ScenarioWorld.ack,
    "commit": ScenarioWorld.commit,
    "abort": ScenarioWorld.abort,
}
OF_THE_WORLD: dict[str, Callable[..., Answer]] = {
    name: getattr(ScenarioWorld, name)
    for name in (
        *("plain", "publish", "read", "log", "offset", "queue", "records", "describe"),
        *("markers", "advance", "power"),
    )
}


def known(client: Client) -> ProducerIdentity:
    assert client.who is not None, "init comes first"
    return client.who


def identity(who: ProducerIdentity) -> str:
    return f"producer {who.producer_id}, epoch {who.epoch}"


def place(where: str) -> TopicPartition:
    topic, index = where.split("/")
    return TopicPartition(TopicName(topic), int(index))


def commit_request(offset: str, where: str) -> CommitRequest:
    wanted = OffsetToCommit(*place(where), Offset(int(offset)))
    return CommitRequest(group_id=BILLING, offsets=(wanted,))


def shown(data: bytes) -> Iterator[str]:
    """Each batch in a line: offset, producer's epoch, and values or what the marker says."""
    for header in batches.verified_headers(bytearray(data)):
        epoch = f"epoch {header.producer_epoch}" if header.has_producer else "no producer"
        marker = markers.decode(data, header) if header.is_control else None
        if marker is not None:
            yield f"{header.base_offset} {epoch}: {'commit' if marker.commits else 'abort'} marker"
        else:
            values = [(each.value or b"").decode() for each in batches.decode(data, header)]
            yield f"{header.base_offset} {epoch}: {' '.join(values)}"


def record_text(value: bytes) -> str:
    """A record of the coordinator's log without its times."""
    record = decode(value)
    fields = msgspec.to_builtins(record)
    hidden = ("type", "transactional_id", "at", "timeout_ms", "previous_producer_id")
    told = {name: each for name, each in fields.items() if name not in (*hidden, "previous_epoch")}
    return f"{type(record).__name__} {told}".replace("'", "")

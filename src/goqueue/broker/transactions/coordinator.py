"""The transaction coordinator: the verbs of transactions, for all listeners.

It keeps the participants of a transaction by name.  What is decided is completed by
`completion.py`: every participant gets a marker, then the coordinator's log says that the
transaction is complete.

A verb answers, and a marker is sent, only when all that was decided about the transactional id is
durable (`wait_durable`).  Two steps are quicker:

- A participant may be written to as soon as it is added, and both flushes run at once; but the
  producer gets its answer only after both.  What a crash leaves behind then, records and offsets of
  a transaction that does not know where they are, is aborted at the next start or when the
  partition is opened (`OrphanedTransactions`).
- That a transaction is complete need not be durable before the next one begins: see
  `completion.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from goqueue.broker.barrier import Barrier, settle_refusals
from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.queues.ledgers import wait_durable
from goqueue.broker.queues.service import Queues
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.acks import Refused, TransactionAcks, ledgers_of
from goqueue.broker.transactions.acks_elsewhere import AcksElsewhere, AcksHere
from goqueue.broker.transactions.completion import TransactionCompletion
from goqueue.broker.transactions.log import Decide, ReplyT, SettledShard, TransactionLog
from goqueue.broker.transactions.machines import TransactionMachines
from goqueue.broker.transactions.offsets import OtherCoordinators, TransactionOffsets
from goqueue.broker.transactions.orphans import OrphanedTransactions
from goqueue.broker.transactions.participants import (
    FindPartition,
    LocalParticipants,
    OpenedPartition,
    OtherLeaders,
)
from goqueue.broker.transactions.upgrade import take_over_leftovers
from goqueue.groups import CommitRequest, PartitionResult
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, Timestamp, TopicPartition
from goqueue.model.markers import Marker
from goqueue.queue import Owner
from goqueue.queue.receipts import Claims, read_receipts
from goqueue.runtime import Clock
from goqueue.txn import (
    GroupOffsets,
    MustEnd,
    OpenTransaction,
    ProducerIdentity,
    QueueLedger,
    State,
    Transaction,
    TransactionMachine,
    identity_of,
    needs_new_id,
)
from goqueue.txn.errors import ConcurrentTransactions, InvalidTransactionState, UnknownProducer
from goqueue.wire.node_messages import Orphan

UPKEEP_SECONDS: Final = 60.0
INIT_ATTEMPTS_MAX: Final = 10  # to end what others begin under the same id meanwhile

ReserveProducerId = Callable[[], Awaitable[int]]

_log = structlog.get_logger("goqueue.transactions")


class OtherNodesOfTransactions(OtherLeaders, OtherCoordinators, Protocol):
    """See `TransactionPeers`."""

    async def abort_owner(self, found: OpenTransaction) -> bool: ...

    async def find_orphans(
        self, partition: Partition, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]: ...


class Transactions:
    """The verbs of transactions, for all listeners.  Refusals are raised as `TransactionError`."""

    def __init__(
        self,
        clock: Clock,
        log: TransactionLog,
        orphans: OrphanedTransactions,
        groups: Groups,
        queues: Queues,
        find_partition: FindPartition,
        opened: OpenedPartition,
        reserve_producer_id: ReserveProducerId,
        others: OtherNodesOfTransactions,
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._find_partition = find_partition
        self._reserve_producer_id = reserve_producer_id
        self._log = log
        self._orphans = orphans
        self.acks = TransactionAcks(clock, queues)
        self.acks_elsewhere: AcksElsewhere | None = None  # in a cluster
        self.barrier = Barrier(self)  # of verbs that look at transactions in several steps
        self._participants = LocalParticipants(
            clock, groups, self.acks, find_partition, opened, others
        )
        self._completion = TransactionCompletion(clock, log, self._participants)
        self._others = others
        self._offsets = TransactionOffsets(self, groups, others)

    # --- life -------------------------------------------------------------------------------------

    def join_cluster(
        self, others: OtherNodes, leader_elsewhere: Callable[[TopicPartition], NodeId | None]
    ) -> None:
        """Have messages acked whose ledgers other nodes lead, and do the same for them."""
        AcksHere(self.acks).serve(others)
        self.acks_elsewhere = AcksElsewhere(others, leader_elsewhere)

    def attach(self, host: MachineHost[TransactionMachine], shard: int = 0) -> None:
        self._log.attach(host, shard)

    @property
    def is_coordinating(self) -> bool:
        """Whether this node leads any shard."""
        return self._log.is_coordinator

    def coordinates(self, transactional_id: str) -> bool:
        return self._log.coordinates(transactional_id)

    @property
    def shards(self) -> Mapping[int, MachineHost[TransactionMachine]]:
        """Those that this node leads."""
        return self._log.shards

    @property
    def hosts(self) -> Sequence[MachineHost[TransactionMachine]]:
        return self._log.hosts

    def host_of(self, transactional_id: str) -> MachineHost[TransactionMachine]:
        """Raises `NotCoordinator` unless this node coordinates the id's transactions."""
        return self._log.host_of(transactional_id)

    @property
    def host(self) -> MachineHost[TransactionMachine]:
        """Of a broker that is alone."""
        return self._log.host

    @property
    def ahead(self) -> TransactionMachines:
        """The machines, ahead of their logs: for metrics, and for verbs that end with a barrier."""
        return self._log.ahead

    def barrier_of(self, *transactional_ids: str) -> Barrier:
        """As `barrier`, of verbs that look at these ids, as far as they are coordinated here."""
        mine = filter(self.coordinates, transactional_ids)
        one_each = {self._log.shard_of(each): each for each in mine}
        return Barrier(*(SettledShard(self._log, each) for each in one_each.values()))

    async def wait_settled(self, about: object = None) -> None:
        """Return when everything that was decided up to now is durable.

        `about` a transactional id: in its shard; raises `NotCoordinator`.
        """
        await self._log.wait_settled(about if isinstance(about, str) else None)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Complete, in the background, what was decided before the last stop."""
        self._participants.start(tasks)
        if self.is_coordinating:
            await take_over_leftovers(self._log, self._groups, self.acks, self._find_partition)
            await self._offsets.end_orphans()
            await self._abort_orphaned_acks()
        self._completion.start(tasks)

    async def _abort_orphaned_acks(self) -> None:
        """Of transactions that this node coordinates, and whose beginning was lost."""
        for place, acking in list(self.acks.owners()):
            if not self.coordinates(acking.transactional_id):
                continue
            owner = self.ahead.find_owner(OpenTransaction(acking.producer_id, acking.epoch))
            if owner is None or place not in owner.ledgers:
                epoch = self.host_of(acking.transactional_id).epoch
                shard = self._log.shard_of(acking.transactional_id)
                marker = Marker(*acking[:2], epoch, commits=False, coordinator=shard)
                await self.acks.end(QueueLedger(*place), marker)

    async def lead(self, host: MachineHost[TransactionMachine], shard: int = 0) -> None:
        """This node leads the shard, or does so again, with the machine as its log says."""
        self.attach(host, shard)
        self._completion.resume(shard)
        try:
            await self._abort_orphaned_acks()
        except GoQueueError as error:  # a partition's are ended when it is opened, or by the upkeep
            _log.warning("orphaned transactions not ended", problem=str(error))

    def resign_all(self) -> None:
        for shard in list(self._log.shards):
            self.resign(shard)

    def resign(self, shard: int = 0) -> None:
        """Another node leads the shard, or none while this one is down.

        Whoever waits for a transaction's end is told to look for the coordinator; so is everybody
        who comes later.  What is durable is completed by whoever coordinates next, and what is not
        is nobody's state.
        """
        self._log.resign(shard)
        self._completion.resign(shard)

    async def groups_led(self, shard: int) -> None:
        """This node coordinates the groups of the shard: end what their transactions left."""
        if shard not in self._groups.shards:
            return
        try:
            await self._offsets.end_orphans(shard)
        except GoQueueError as error:  # the upkeep looks again
            _log.warning("orphaned offsets not ended", problem=str(error))

    def on_deadline(self, ending: Sequence[MustEnd], committed: Committed) -> None:
        """Complete the transactions that the machine aborted because they took too long."""
        for must_end in ending:
            _log.warning("transaction timed out", transactional_id=must_end.transactional_id)
            self.note_decision(must_end.transactional_id, committed)
            self._completion.complete(self.ahead.get(must_end.transactional_id))

    def stop(self) -> None:
        self._completion.stop()
        self._participants.stop()
        for host in self.hosts:
            try:
                host.write_deferred()
            except GoQueueError as error:  # then they are completed once more
                _log.error("completions not written", problem=str(error))

    # --- asking -----------------------------------------------------------------------------------

    def oldest_age_ms(self) -> int:
        """How long the oldest open transaction has been; 0 when none is open."""
        ongoing = self.ahead.ongoing
        return max(0, self._clock.steady() - ongoing[0].started_at) if ongoing else 0

    @settle_refusals
    async def check(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """The transactional id's state, when `who` is its producer; raises when not."""
        return self.ahead.check(transactional_id, who)

    @settle_refusals
    async def find_id(self, who: ProducerIdentity) -> str:
        """The transactional id of a producer that does not name it."""
        for transaction in self.ahead.all():
            if transaction.producer_id == who.producer_id:
                return transaction.transactional_id
        raise UnknownProducer(f"there is no producer {who.producer_id}")

    def has_producer(self, producer_id: int) -> bool:
        """Whether this node coordinates a transactional id of the producer."""
        return any(each.producer_id == producer_id for each in self.ahead.all())

    async def find_orphans(
        self,
        where: TopicPartition | GroupOffsets,
        opened: Sequence[OpenTransaction],
        shards: Sequence[int],
    ) -> list[Orphan]:
        """Those of `opened`, open there, that none of the shards will end; durably so.

        Raises when that cannot be said.
        """
        return await self._orphans.find(where, opened, shards)

    # --- producers --------------------------------------------------------------------------------

    @settle_refusals
    async def init(
        self, transactional_id: str, *, timeout_ms: int, expected: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """Start a producer: what an earlier one left open is aborted first, and that one fenced."""
        for _ in range(INIT_ATTEMPTS_MAX):
            spare = await self._spare_id(transactional_id)
            now = self._clock.steady()
            reply = await self._decide(
                transactional_id,
                lambda machine, now=now, spare=spare: machine.init(  # type: ignore[misc]
                    now,
                    transactional_id,
                    timeout_ms=timeout_ms,
                    new_producer_id=spare,
                    expected=expected,
                ),
            )
            if isinstance(reply, ProducerIdentity):
                return reply
            if not await self.wait_completed(transactional_id):
                break
        raise ConcurrentTransactions(
            f"the transaction that {transactional_id!r} left open is still being aborted"
        )

    async def _spare_id(self, transactional_id: str) -> int:
        """A producer id in reserve, when the next decision may need one."""
        if needs_new_id(self.ahead.find(transactional_id)):
            return await self._reserve_producer_id()
        return -1

    @settle_refusals
    async def begin(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """Begin an empty transaction, for callers who think of it as a step of its own."""
        await self.wait_ready(transactional_id)
        await self._decide(
            transactional_id,
            lambda machine: machine.begin(self._clock.steady(), transactional_id, who),
        )
        return self.ahead.get(transactional_id)

    @settle_refusals
    async def add_partitions(
        self, transactional_id: str, who: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> None:
        """Let the transaction write to these; durably."""
        await self.wait_ready(transactional_id)
        self.announce_partitions(transactional_id, who, partitions)
        await self.wait_durable(transactional_id)

    def announce_partitions(
        self, transactional_id: str, who: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> None:
        """Let the transaction write to these.  Not durable yet: see `wait_durable`."""
        self._log.refuse_if_failed(transactional_id)
        self._log.submit(
            transactional_id,
            lambda machine: machine.add_partitions(
                self._clock.steady(), transactional_id, who, partitions
            ),
        )

    def announce_partitions_soon(
        self, transactional_id: str, who: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> None:
        """As `announce_partitions`, and they are written when the caller has given its answer."""
        self._log.refuse_if_failed(transactional_id)
        self._log.submit_soon(
            transactional_id,
            lambda machine: machine.add_partitions(
                self._clock.steady(), transactional_id, who, partitions
            ),
        )

    async def wait_ready(self, transactional_id: str) -> None:
        """Return when the next transaction may begin, or at once when that is not in sight."""
        await self._completion.wait_ready(transactional_id)

    def admit(
        self, transactional_id: str, who: ProducerIdentity, partition: TopicPartition, *, adds: bool
    ) -> asyncio.Future[None] | None:
        """Check that the producer may append to the partition now, and add it if need be.

        In the same step in which `wait_ready` has returned.  Who appends must not say so before the
        future given is done.  A group's attempt adds what it writes to, whoever asks.
        """
        self._log.refuse_if_failed(transactional_id)
        if not self.ahead.is_in_transaction(transactional_id, who, partition):
            is_attempt = self.ahead.get(transactional_id).attempt is not None
            if not adds and not is_attempt:
                raise InvalidTransactionState(
                    f"{partition[0]}-{partition[1]} is not part of a transaction of"
                    f" {transactional_id!r}"
                )
            self.announce_partitions(transactional_id, who, [partition])
        return self._log.pending(transactional_id)

    # --- offsets ----------------------------------------------------------------------------------

    @settle_refusals
    async def add_group(self, transactional_id: str, who: ProducerIdentity, group_id: str) -> None:
        await self.wait_ready(transactional_id)
        await self._decide(
            transactional_id,
            lambda machine: machine.add_group(
                self._clock.steady(), transactional_id, who, group_id
            ),
        )

    async def add_offsets(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        request: CommitRequest,
        *,
        adds_group: bool,
    ) -> tuple[PartitionResult, ...]:
        """Have a group commit offsets if, and when, the transaction commits; it may refuse now.

        Durable on return.  Whoever coordinates the transaction, and the group.
        """
        return await self._offsets.add(transactional_id, who, request, adds_group=adds_group)

    @settle_refusals
    async def hold_offsets(
        self, transactional_id: str, who: ProducerIdentity, request: CommitRequest, *, adds: bool
    ) -> tuple[PartitionResult, ...]:
        """As `add_offsets`, where this node coordinates both the transaction and the group."""
        await self.announce_group(transactional_id, who, request.group_id, adds=adds)
        self._offsets.note_added(request)
        results = await self._groups.commit(request)
        await self.wait_durable(transactional_id)
        return results

    async def announce_group(
        self, transactional_id: str, who: ProducerIdentity, group_id: str, *, adds: bool
    ) -> None:
        """Let the transaction commit offsets of the group, which `adds` allows to be a new one.

        Not durable yet: see `wait_durable`.
        """
        await self._wait_completion_durable(transactional_id)
        self._log.submit(
            transactional_id,
            lambda machine: machine.add_group(
                self._clock.steady(), transactional_id, who, group_id, is_new=adds
            ),
        )

    async def _wait_completion_durable(self, transactional_id: str) -> None:
        """Return when a marker of the transaction before this one, with its epoch, cannot come."""
        await self.wait_ready(transactional_id)
        transaction = self.ahead.find(transactional_id)
        if transaction is not None and transaction.shares_epoch:
            await self._log.wait_committed(transactional_id)
        self._log.refuse_if_failed(transactional_id)

    # --- acks -------------------------------------------------------------------------------------

    @settle_refusals
    async def add_acks(
        self, transactional_id: str, who: ProducerIdentity, receipts: Sequence[str]
    ) -> Refused:
        """Ack messages of queues if, and when, the open transaction commits.

        Durable on return.  When a receipt is not good, all are refused: what is given says why.
        """
        claims, malformed = read_receipts(receipts)
        if malformed:
            return dict(malformed)
        await self._wait_completion_durable(transactional_id)
        self._add_ledgers(transactional_id, who, claims)
        elsewhere = self.acks_elsewhere
        if elsewhere is not None and (divided := elsewhere.divide(receipts)) is not None:
            transaction = self.ahead.get(transactional_id)
            return await elsewhere.reserve(
                transaction,
                receipts,
                divided,
                partial(
                    self._confirm_ledgers, transactional_id, who, claims, transaction.started_at
                ),
            )
        owner = Owner(who.producer_id, who.epoch, transactional_id)
        refused, waiting = self.acks.reserve(owner, claims, len(receipts))
        await wait_durable(waiting)
        await self.wait_durable(transactional_id)
        return refused

    def _add_ledgers(self, transactional_id: str, who: ProducerIdentity, claims: Claims) -> None:
        self._log.submit(
            transactional_id,
            lambda machine: machine.add_ledgers(
                self._clock.steady(), transactional_id, who, ledgers_of(claims)
            ),
        )

    async def _confirm_ledgers(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        claims: Claims,
        started_at: Timestamp,
    ) -> None:
        """Raise unless the transaction that began then is open, and has the ledgers, durably."""
        transaction = self.ahead.check(transactional_id, who)
        if transaction.state is not State.ONGOING or transaction.started_at != started_at:
            raise InvalidTransactionState(f"the transaction of {transactional_id!r} is over")
        self._add_ledgers(transactional_id, who, claims)
        await self.wait_durable(transactional_id)

    async def count_acks(self, transactions: Sequence[Transaction]) -> Sequence[int | None]:
        """How many messages each of the transactions acks, wherever they are led.

        None while a leader of some of them is not reached.
        """
        if self.acks_elsewhere is None:
            return [self.acks.count(each) for each in transactions]
        return await self.acks_elsewhere.count(transactions)

    # --- ending -----------------------------------------------------------------------------------

    @settle_refusals
    async def end(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        *,
        commits: bool,
        bumps_epoch: bool,
        waits_for_markers: bool = True,
    ) -> ProducerIdentity:
        """Commit or abort, for good; gives who the producer is from now on.

        On return every participant has its marker, unless a disk is slow.  Without
        `waits_for_markers` they are sent when the caller has given its answer, so before any
        request of somebody who has read the answer; readers who come then wait for the flush.
        """
        spare = await self._spare_id(transactional_id) if bumps_epoch else -1
        reply = await self._decide(
            transactional_id,
            lambda machine: machine.end(
                self._clock.steady(),
                transactional_id,
                who,
                commits=commits,
                bumps_epoch=bumps_epoch,
                spare_producer_id=spare,
            ),
        )
        transaction = self.ahead.find(transactional_id)
        if transaction is not None and transaction.state.is_prepared:
            end = self._completion.complete(transaction, soon=not waits_for_markers)
            if waits_for_markers:
                await end.wait_complete()
        return reply

    @settle_refusals
    async def abort(self, transactional_id: str, *, only: ProducerIdentity | None = None) -> bool:
        """End a hanging transaction on an operator's word; False when there was none."""
        self.ahead.get(transactional_id)
        spare = await self._spare_id(transactional_id)
        aborted = await self._decide(
            transactional_id,
            lambda machine: machine.abort(
                self._clock.steady(), transactional_id, spare_producer_id=spare, only=only
            ),
        )
        if aborted:
            _log.warning("transaction aborted on request", transactional_id=transactional_id)
            await self.wait_completed(transactional_id)
        return aborted

    @settle_refusals
    async def abort_in_partition(self, who: ProducerIdentity, topic: str, index: int) -> None:
        """End what a producer left open in a partition, on an operator's word.

        A transaction that its coordinator knows is aborted as a whole, or completed if it is
        decided.  Only what no coordinator will ever end gets a marker for this partition alone: a
        commit marker, if it is known that just that was lost.
        """
        partition = await self._find_partition(topic, index)
        producers = partition.log.producers
        producer = producers.find(who.producer_id)
        if producer is None:
            return
        epoch = producer.coordinator_epoch
        producers.check_marker(Marker(who.producer_id, who.epoch, epoch, commits=False))
        if producer.transaction_start is None:
            return
        found = OpenTransaction(producer.producer_id, producer.epoch, producer.ended_at)
        if not await self._others.abort_owner(found):
            for orphan in await self._others.find_orphans(partition, [found]):
                await self._orphans.end(partition, orphan)

    @settle_refusals
    async def abort_owner(self, found: OpenTransaction) -> bool:
        """Abort, or complete, the transaction that has this open; False: none here does."""
        owner = self.ahead.find_owner(found)
        if owner is None:
            return False
        if owner.state.is_prepared:
            await self.wait_completed(owner.transactional_id)
        else:
            await self.abort(owner.transactional_id, only=identity_of(owner))
        return True

    # --- upkeep -----------------------------------------------------------------------------------

    async def run_upkeep(self, partitions: Iterable[Partition]) -> None:
        """Forget silent producers, and end what no coordinator will ever end."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            for host in self.hosts:
                self._look_at_deadlines(host, self._clock.steady())
            for shard in list(self._groups.shards):
                await self.groups_led(shard)
            now = self._clock.now()
            for partition in partitions:
                partition.log.producers.expire(now)
                await self._orphans.end_all(partition)

    def _look_at_deadlines(self, host: MachineHost[TransactionMachine], now: Timestamp) -> None:
        """Also when none is due: the clock may have been set back."""
        try:
            self.on_deadline(*host.submit_now(lambda machine: machine.on_deadline(now)))
        except GoQueueError as error:
            _log.error("deadlines not looked at", problem=str(error))

    # --- deciding ---------------------------------------------------------------------------------

    async def _decide(self, transactional_id: str, decide: Decide[ReplyT]) -> ReplyT:
        """The reply, once it and all that it rests on is durable."""
        reply, _ = self._log.submit(transactional_id, decide)
        try:
            await self.wait_durable(transactional_id)
        except asyncio.CancelledError:
            self.complete_unattended(transactional_id)
            raise
        return reply

    def complete_unattended(self, transactional_id: str) -> None:
        """Complete what was decided for a caller that is gone, or it would hold back readers."""
        transaction = self.ahead.find(transactional_id)
        if transaction is not None and transaction.state.is_prepared:
            self._completion.complete_unattended(transaction)

    def note_decision(self, transactional_id: str, committed: Committed) -> None:
        """A decision about the id is on its way to disk; see `wait_durable`."""
        self._log.note_decision(transactional_id, committed)

    async def wait_durable(self, transactional_id: str) -> None:
        """Return when all that was decided about the id is on disk; raises when it cannot be."""
        await self._log.wait_durable(transactional_id)

    async def wait_completed(self, transactional_id: str) -> bool:
        """Return when the decided transaction is completed; False when that takes too long."""
        transaction = self.ahead.find(transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            return True
        return await self._completion.complete(transaction).wait_complete()

"""Transactions at work: the coordinator on `__transactions`, and carrying out what it decides.

A decided transaction is driven: its markers are written to every partition and its offsets to
their groups, then the coordinator hears that it is complete.  Whatever fails is tried again; what
a crash interrupts is driven at the next start, before any listener opens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import structlog

from goqueue.broker.groups import Groups
from goqueue.broker.host import Committed, MachineHost
from goqueue.broker.partition import Partition
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model.errors import GoQueueError, InvalidProducerEpoch, TopicNotFound
from goqueue.model.ids import GroupId, Timestamp
from goqueue.model.machine import Decision
from goqueue.runtime import Clock
from goqueue.txn import (
    MustEnd,
    PendingOffset,
    ProducerIdentity,
    TopicPartition,
    Transaction,
    TransactionMachine,
    TransactionRecord,
)
from goqueue.txn.errors import InvalidTransactionState

COORDINATOR_EPOCH: Final = 0  # of a coordinator that has no peers
RETRY_SECONDS: Final = 1.0

ReplyT = TypeVar("ReplyT")
FindPartition = Callable[[str, int], Awaitable[Partition]]
ReserveProducerId = Callable[[], Awaitable[int]]

_log = structlog.get_logger("goqueue.transactions")


class Transactions:
    """The verbs of transactions, for all listeners.  Refusals are raised as `TransactionError`."""

    def __init__(
        self,
        clock: Clock,
        groups: Groups,
        find_partition: FindPartition,
        reserve_producer_id: ReserveProducerId,
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._find_partition = find_partition
        self._reserve_producer_id = reserve_producer_id
        self._host: MachineHost[TransactionMachine] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._driving: dict[str, asyncio.Task[None]] = {}

    # --- life -------------------------------------------------------------------------------------

    def attach(self, host: MachineHost[TransactionMachine]) -> None:
        self._host = host

    @property
    def host(self) -> MachineHost[TransactionMachine]:
        assert self._host is not None, "the broker is not open"
        return self._host

    @property
    def machine(self) -> TransactionMachine:
        return self.host.machine

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Carry out what was decided before the last stop."""
        self._tasks = tasks
        for transaction in self.machine.prepared:
            await self._carry_out_and_complete(transaction)

    def on_deadline(self, ending: Sequence[MustEnd], committed: Committed) -> None:
        """The host tells of transactions that took too long."""
        for must_end in ending:
            _log.warning("transaction timed out", transactional_id=must_end.transactional_id)
            self._drive_after(committed, must_end.transactional_id)

    def stop(self) -> None:
        for task in self._driving.values():
            task.cancel()

    # --- producers --------------------------------------------------------------------------------

    async def init(
        self, transactional_id: str, *, timeout_ms: int, expected: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """Start a producer: what an earlier one left open is aborted first, and that one fenced."""
        while True:
            spare = await self._reserve_producer_id()
            now = self._clock.now()
            reply = await self._decide(
                lambda machine, now=now, spare=spare: machine.init(  # type: ignore[misc]
                    now,
                    transactional_id,
                    timeout_ms=timeout_ms,
                    new_producer_id=spare,
                    expected=expected,
                )
            )
            if isinstance(reply, ProducerIdentity):
                return reply
            await self._drive(transactional_id)

    async def add_partitions(
        self, transactional_id: str, who: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> None:
        await self._decide(
            lambda machine: machine.add_partitions(
                self._clock.now(), transactional_id, who, partitions
            )
        )

    async def admit(
        self, transactional_id: str, who: ProducerIdentity, partition: TopicPartition, *, adds: bool
    ) -> None:
        """Return when the producer may append to the partition, in the same step as the append."""
        while not self.machine.is_in_transaction(transactional_id, who, partition):
            if not adds:
                raise InvalidTransactionState(
                    f"{partition[0]}-{partition[1]} is not part of a transaction of"
                    f" {transactional_id!r}"
                )
            await self.add_partitions(transactional_id, who, [partition])

    # --- offsets ----------------------------------------------------------------------------------

    async def add_group(self, transactional_id: str, who: ProducerIdentity, group_id: str) -> None:
        await self._decide(
            lambda machine: machine.add_group(self._clock.now(), transactional_id, who, group_id)
        )

    async def add_offsets(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        request: CommitRequest,
        *,
        adds_group: bool,
    ) -> None:
        """Hold a group's commit back until the transaction commits; the group may refuse it now."""
        self._groups.host.machine.check_commit(self._clock.now(), request)
        offsets = [
            PendingOffset(each.topic, each.partition, each.offset, each.leader_epoch, each.metadata)
            for each in request.offsets
        ]
        await self._decide(
            lambda machine: machine.add_offsets(
                self._clock.now(),
                transactional_id,
                who,
                request.group_id,
                offsets,
                adds_group=adds_group,
            )
        )

    # --- ending -----------------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, who: ProducerIdentity, *, commits: bool, bumps_epoch: bool
    ) -> ProducerIdentity:
        """Commit or abort; done when every reader can see it.  Gives who the producer is now."""
        spare = await self._reserve_producer_id() if bumps_epoch else -1
        reply = await self._decide(
            lambda machine: machine.end(
                self._clock.now(),
                transactional_id,
                who,
                commits=commits,
                bumps_epoch=bumps_epoch,
                spare_producer_id=spare,
            )
        )
        if isinstance(reply, MustEnd):
            await self._drive(transactional_id)
        transaction = self.machine.get(transactional_id)
        return ProducerIdentity(transaction.producer_id, transaction.epoch)

    async def abort(self, transactional_id: str) -> bool:
        """End a hanging transaction on an operator's word; False when there was none."""
        reply = await self._decide(
            lambda machine: machine.abort(self._clock.now(), transactional_id)
        )
        if reply is None:
            return False
        await self._drive(transactional_id)
        return True

    # --- many at once -----------------------------------------------------------------------------

    async def start_run(self, application: str, run: int) -> int:
        """A new run of an application fences older ones; gives the last version decided."""
        return await self._decide(lambda machine: machine.start_run(application, run))

    async def decide_group(
        self,
        application: str,
        version: int,
        run: int,
        members: Sequence[tuple[str, ProducerIdentity]],
    ) -> bool:
        """Commit all members by one record; False when this version was decided before.

        Then the members given are aborted: they are a repetition.
        """
        is_new = await self._decide(
            lambda machine: machine.decide_group(
                self._clock.now(), application, version, run, members
            )
        )
        if is_new:
            await asyncio.gather(
                *(self._drive(transactional_id) for transactional_id, _ in members)
            )
        else:
            await asyncio.gather(*(self._abort_if_open(each) for each, _ in members))
        return is_new

    async def _abort_if_open(self, transactional_id: str) -> None:
        if self.machine.find(transactional_id) is not None:
            await self.abort(transactional_id)

    # --- carrying out -----------------------------------------------------------------------------

    async def _decide(
        self, decide: Callable[[TransactionMachine], Decision[TransactionRecord, ReplyT]]
    ) -> ReplyT:
        return await self.host.submit(decide)

    def _drive_after(self, committed: Committed, transactional_id: str) -> None:
        if committed is None:
            self._start_driving(transactional_id)
        else:
            committed.add_done_callback(lambda _: self._start_driving(transactional_id))

    async def _drive(self, transactional_id: str) -> None:
        """Return when the decided transaction is carried out."""
        task = self._start_driving(transactional_id)
        if task is not None:
            await asyncio.shield(task)

    def _start_driving(self, transactional_id: str) -> asyncio.Task[None] | None:
        """One task a transaction, whoever waits for it."""
        task = self._driving.get(transactional_id)
        transaction = self.machine.find(transactional_id)
        if task is not None or transaction is None or not transaction.state.is_prepared:
            return task
        assert self._tasks is not None
        task = self._tasks.create_task(self._carry_out_and_complete(transaction))
        self._driving[transactional_id] = task
        task.add_done_callback(lambda _: self._driving.pop(transactional_id, None))
        return task

    async def _carry_out_and_complete(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        while True:
            try:
                await self._carry_out(transaction)
                # The next transaction may begin at once: a crash now only repeats what is done.
                self.host.submit_now(
                    lambda machine: machine.completed(self._clock.now(), transactional_id)
                )
            except GoQueueError as error:
                _log.error(
                    "transaction not carried out yet",
                    transactional_id=transactional_id,
                    problem=str(error),
                )
                await self._clock.sleep(RETRY_SECONDS)
            else:
                return

    async def _carry_out(self, transaction: Transaction) -> None:
        commits = transaction.commits
        markers = [
            self._write_marker(transaction, topic, index, commits)
            for topic, index in sorted(transaction.partitions)
        ]
        await asyncio.gather(*markers)
        if commits:
            for group_id, offsets in transaction.offsets.items():
                await self._commit_offsets(
                    GroupId(group_id), list(offsets.values()), transaction.changed_at
                )

    async def _write_marker(
        self, transaction: Transaction, topic: str, index: int, commits: bool
    ) -> None:
        try:
            partition = await self._find_partition(topic, index)
            marker = partition.append_marker(
                producer_id=transaction.marker_producer_id,
                producer_epoch=transaction.marker_epoch,
                coordinator_epoch=COORDINATOR_EPOCH,
                commits=commits,
                now=self._clock.now(),
            )
            await partition.committed(marker)
        except TopicNotFound:
            return  # deleted meanwhile: nobody will read it
        except InvalidProducerEpoch as error:
            _log.warning("marker not needed", topic=topic, partition=index, reason=str(error))

    async def _commit_offsets(
        self, group_id: GroupId, offsets: Sequence[PendingOffset], decided_at: Timestamp
    ) -> None:
        """Commit what the group has not moved past since: a repetition must not set it back."""
        newer = self._newer_commits(group_id, decided_at)
        wanted = tuple(
            OffsetToCommit(
                each.topic, each.partition, each.offset, each.leader_epoch, each.metadata
            )
            for each in offsets
            if (each.topic, each.partition) not in newer
        )
        if wanted:
            request = CommitRequest(group_id=group_id, offsets=wanted, is_transactional=True)
            await self._groups.commit(request)

    def _newer_commits(self, group_id: GroupId, decided_at: Timestamp) -> set[tuple[str, int]]:
        (fetched,) = self._groups.fetch([FetchRequest(group_id=group_id)])
        return {
            key
            for key, committed in fetched.offsets.items()
            if committed is not None and committed.committed_at > decided_at
        }

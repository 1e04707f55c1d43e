"""The transaction coordinator: decides who may write, and how every transaction ends.

    verb(now, …) ──> Decision(records, reply)       reads state
    apply(record)                                   changes it
    next_deadline() / on_deadline(now)              transactions that took too long are aborted

It knows the participants of a transaction by name only, and never sends a marker itself.  Who holds
the machine looks at `prepared`: for each transaction there, send its marker to every participant,
then submit `complete`.  That may be repeated any number of times, before and after a crash.
"""

import itertools
from collections.abc import Generator, Iterable, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import PRODUCER_EPOCH_MAX, Timestamp, TopicPartition
from goqueue.model.machine import Decision
from goqueue.model.snapshots import Walk
from goqueue.txn.applications import Applications
from goqueue.txn.deadlines import Deadlines
from goqueue.txn.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdNotFound,
)
from goqueue.txn.identity import (
    ProducerIdentity,
    check_identity,
    decision,
    identity_of,
    is_known,
    is_previous,
)
from goqueue.txn.records import (
    ApplicationForgotten,
    ApplicationKept,
    AttemptStarted,
    Completed,
    Forgotten,
    GroupAborted,
    GroupDecided,
    LedgersAdded,
    OffsetsAdded,
    PartitionsAdded,
    PendingOffset,
    Prepared,
    ProducerRegistered,
    RunStarted,
    State,
    TransactionKept,
    TransactionRecord,
    decode,
    encode,
)
from goqueue.txn.transaction import MustEnd, OpenTransaction, Transaction

TIMEOUT_MS_MAX: Final = 15 * 60_000
IDLE_MS_MAX: Final = 7 * 24 * 3_600_000
SWEEP_MS: Final = 3_600_000


class Counts(msgspec.Struct):
    """How many transactions began and ended; for metrics."""

    started: int = 0
    committed: int = 0
    aborted: int = 0


class TransactionMachine:
    """All transactional ids of a coordinator.  Verbs raise `TransactionError` to refuse."""

    def __init__(self, timeout_ms_max: int = TIMEOUT_MS_MAX) -> None:
        self._timeout_ms_max = timeout_ms_max
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, Transaction] = {}  # in the order of their beginning
        self._prepared: dict[str, Transaction] = {}
        self._deadlines = Deadlines(self._is_deadline)
        self._sweep_at = Timestamp(0)
        self._walk: Walk[str, TransactionKept | None] | None = None  # of a snapshot
        self.applications = Applications(self._transactions)
        self.counts = Counts()

    # --- asking -----------------------------------------------------------------------------------

    @property
    def prepared(self) -> Sequence[Transaction]:
        """Those that are decided and not complete."""
        return list(self._prepared.values())

    @property
    def ongoing(self) -> Sequence[Transaction]:
        """Those that are open, the oldest first."""
        return list(self._ongoing.values())

    @property
    def id_count(self) -> int:
        """Transactional ids that are known."""
        return len(self._transactions)

    def all(self) -> list[Transaction]:
        return list(self._transactions.values())

    def find(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        found = self._transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        return found

    def check(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """The transactional id's state, when `who` is its producer; raises when not."""
        transaction = self.get(transactional_id)
        check_identity(transaction, who)
        return transaction

    def is_in_transaction(
        self, transactional_id: str, who: ProducerIdentity, partition: TopicPartition
    ) -> bool:
        """Whether this producer may write to the partition; raises when it is not the producer."""
        transaction = self.check(transactional_id, who)
        return transaction.state is State.ONGOING and partition in transaction.partitions

    def find_orphans(
        self, partition: TopicPartition, opened: Iterable[OpenTransaction]
    ) -> list[tuple[OpenTransaction, Transaction | None]]:
        """Those of `opened`, open in the partition, that no open transaction here will end.

        Each with the transaction id that committed it, when the partition has lost its marker;
        None when it is not known.
        """
        open_here = [
            each
            for each in (*self._ongoing.values(), *self._prepared.values())
            if partition in each.partitions
        ]
        owners = {each.open_producer: each for each in open_here}
        orphans: list[tuple[OpenTransaction, Transaction | None]] = []
        for found in opened:
            owner = owners.get((found.producer_id, found.epoch))
            is_owned = owner is not None and owner.will_end(found)
            if owner is None or not is_owned or owner.has_committed(partition, found):
                candidates = self._transactions.values()
                committed = (each for each in candidates if each.has_committed(partition, found))
                orphans.append((found, next(committed, None)))
        return orphans

    def find_orphaned_offsets(
        self, group_id: str, opened: Iterable[OpenTransaction]
    ) -> list[OpenTransaction]:
        """Those of `opened`, whose offsets wait in the group, that nothing here will end."""
        candidates = (*self._ongoing.values(), *self._prepared.values())
        owners = {each.open_producer for each in candidates if group_id in each.groups}
        return [each for each in opened if (each.producer_id, each.epoch) not in owners]

    def find_owner(self, found: OpenTransaction) -> Transaction | None:
        """The open transaction whose end is also the end of `found`."""
        candidates = (*self._ongoing.values(), *self._prepared.values())
        return next((each for each in candidates if each.will_end(found)), None)

    # --- producers --------------------------------------------------------------------------------

    def init(
        self,
        now: Timestamp,
        transactional_id: str,
        *,
        timeout_ms: int,
        new_producer_id: int = -1,
        expected: ProducerIdentity | None = None,
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd]:
        """A producer starts: fence the one before it, end what that one left open.

        `new_producer_id` must be there when `needs_new_id` says so.  `expected` is a producer that
        goes on after an error (KIP-360): it is refused when another has started meanwhile.
        """
        if not 0 < timeout_ms <= self._timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"transaction timeout {timeout_ms} ms; allowed are 1 to {self._timeout_ms_max}"
            )
        known = self._transactions.get(transactional_id)
        if known is not None and known.attempt is not None:
            raise InvalidTransactionState(
                f"{transactional_id!r} is an attempt of application"
                f" {known.attempt.application!r}, which starts it itself"
            )
        if known is not None and expected is not None and not is_known(known, expected):
            raise ProducerFenced(
                f"{transactional_id!r} is at producer {known.producer_id} epoch {known.epoch},"
                f" not {expected.producer_id} epoch {expected.epoch}"
            )
        if known is not None and known.state.is_prepared:
            return Decision((), MustEnd(transactional_id))
        if known is not None and known.state is State.ONGOING:
            aborted = decision(known, now, commits=False, fences=True, spare=new_producer_id)
            return Decision((aborted,), MustEnd(transactional_id))
        who = ProducerIdentity(new_producer_id, 0)
        if known is not None and known.epoch < PRODUCER_EPOCH_MAX - 1:
            who = ProducerIdentity(known.producer_id, known.epoch + 1)
        assert who.producer_id >= 0, "a new producer id was needed"
        # Only the one who named itself may come back under its old epoch: for a stranger the old
        # producer is a zombie, and must not be taken for one that missed a reply.
        missed = expected if expected is not None else ProducerIdentity(-1, -1)
        record = ProducerRegistered(
            transactional_id,
            who.producer_id,
            who.epoch,
            timeout_ms,
            now,
            missed.producer_id,
            missed.epoch,
        )
        return Decision((record,), who)

    # --- taking part ------------------------------------------------------------------------------

    def begin(
        self, now: Timestamp, transactional_id: str, who: ProducerIdentity
    ) -> Decision[TransactionRecord, None]:
        """Begin a transaction that has nothing in it yet; refused when one is open."""
        if self._open(transactional_id, who).state is State.ONGOING:
            raise InvalidTransactionState(f"{transactional_id!r} has a transaction open")
        return Decision((PartitionsAdded(transactional_id, (), now),), None)

    def add_partitions(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        partitions: Iterable[TopicPartition],
    ) -> Decision[TransactionRecord, None]:
        """The transaction writes to these; it begins with the first."""
        transaction = self._open(transactional_id, who)
        held = transaction.partitions if transaction.state is State.ONGOING else set()
        new = tuple(sorted(set(partitions) - held))
        if not new:
            return Decision((), None)
        return Decision((PartitionsAdded(transactional_id, new, now),), None)

    def add_group(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        group_id: str,
        *,
        is_new: bool = True,
    ) -> Decision[TransactionRecord, None]:
        """The group commits offsets with the transaction; refused if it must be part of it."""
        transaction = self._open(transactional_id, who)
        if transaction.state is State.ONGOING and group_id in transaction.groups:
            return Decision((), None)
        if not is_new:
            raise InvalidTransactionState(
                f"group {group_id!r} is not part of the transaction of {transactional_id!r}"
            )
        return Decision((OffsetsAdded(transactional_id, group_id, (), now),), None)

    def add_ledgers(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        ledgers: Iterable[TopicPartition],
    ) -> Decision[TransactionRecord, None]:
        """Messages of these partitions are acked with the transaction, which has begun."""
        transaction = self._open(transactional_id, who)
        if transaction.state is not State.ONGOING:
            raise InvalidTransactionState(f"{transactional_id!r} has no transaction open")
        new = tuple(sorted(set(ledgers) - transaction.ledgers))
        return Decision((LedgersAdded(transactional_id, new, now),) if new else (), None)

    def _open(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """As `check`, and something may be added to the transaction."""
        transaction = self.check(transactional_id, who)
        if transaction.state.is_prepared:
            raise ConcurrentTransactions(
                f"the transaction before this one of {transactional_id!r} is still being ended"
            )
        return transaction

    # --- ending -----------------------------------------------------------------------------------

    def end(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        *,
        commits: bool,
        bumps_epoch: bool,
        spare_producer_id: int = -1,
    ) -> Decision[TransactionRecord, ProducerIdentity]:
        """Decide.  The reply is who the producer is from now on.

        With `bumps_epoch` each transaction has an epoch of its own (KIP-890), so that neither a
        write nor a marker which comes late can be taken for one of the next transaction; a client
        that missed the reply asks again with the old epoch.
        """
        transaction = self.get(transactional_id)
        if commits and transaction.attempt is not None:
            raise InvalidTransactionState(
                f"{transactional_id!r} is committed by the decision about version"
                f" {transaction.attempt.version} of {transaction.attempt.application!r}"
            )
        if bumps_epoch and is_previous(transaction, who):
            return self._answer_repeated_end(transaction, commits)
        check_identity(transaction, who)
        if not bumps_epoch and (transaction.state.is_prepared or transaction.state.is_complete):
            return self._answer_repeated_end(transaction, commits)
        self._open(transactional_id, who)
        if transaction.state is not State.ONGOING and (commits or not bumps_epoch):
            raise InvalidTransactionState(
                f"{transactional_id!r} has no transaction to {'commit' if commits else 'abort'}"
            )
        record = decision(
            transaction, now, commits=commits, fences=bumps_epoch, spare=spare_producer_id
        )
        return Decision((record,), ProducerIdentity(record.producer_id, record.epoch))

    def _answer_repeated_end(
        self, transaction: Transaction, commits: bool
    ) -> Decision[TransactionRecord, ProducerIdentity]:
        state = transaction.state
        if not state.is_prepared and not state.is_complete:
            raise ProducerFenced(f"{transaction.transactional_id!r} has gone on to a new epoch")
        if transaction.commits == commits:
            return Decision((), identity_of(transaction))
        raise InvalidTransactionState(
            f"{transaction.transactional_id!r} is {state}, it cannot"
            f" {'commit' if commits else 'abort'}"
        )

    def abort(
        self,
        now: Timestamp,
        transactional_id: str,
        *,
        spare_producer_id: int = -1,
        only: ProducerIdentity | None = None,
    ) -> Decision[TransactionRecord, bool]:
        """End a transaction that hangs, and fence its producer; False when there is none.

        With `only`, when it is that producer's.
        """
        transaction = self.get(transactional_id)
        is_meant = only is None or only == identity_of(transaction)
        if transaction.state is not State.ONGOING or not is_meant:
            return Decision((), False)
        record = decision(transaction, now, commits=False, fences=True, spare=spare_producer_id)
        return Decision((record,), True)

    def complete(
        self, now: Timestamp, transactional_id: str
    ) -> Decision[TransactionRecord, ProducerIdentity]:
        """Every participant of the decided transaction has its marker."""
        transaction = self.get(transactional_id)
        if not transaction.state.is_prepared:
            return Decision((), identity_of(transaction))
        return Decision((Completed(transactional_id, now),), identity_of(transaction))

    def note_ledger(
        self, transactional_id: str, ledger: TopicPartition
    ) -> Decision[TransactionRecord, None]:
        """A former version did not note the ledgers of an open transaction."""
        kept = self.get(transactional_id).to_record()
        ledgers = tuple(sorted({*kept.ledgers, ledger}))
        return Decision((msgspec.structs.replace(kept, ledgers=ledgers),), None)

    def clear_leftovers(
        self, transactional_id: str, partitions: Iterable[TopicPartition]
    ) -> Decision[TransactionRecord, None]:
        """What a former version left in this log is taken care of; these are its partitions."""
        kept = self.get(transactional_id).to_record()
        groups: dict[str, tuple[PendingOffset, ...]] = dict.fromkeys(kept.offsets, ())
        partitions = tuple(sorted(partitions))
        record = msgspec.structs.replace(kept, partitions=partitions, offsets=groups, starts=None)
        return Decision((record,), None)

    # --- the log ----------------------------------------------------------------------------------

    def apply(self, record: TransactionRecord) -> None:
        match record:
            case ProducerRegistered():
                self._transaction(record.transactional_id).register(record)
            case PartitionsAdded():
                transaction = self._begin_if_needed(record.transactional_id, record.at)
                transaction.partitions.update(
                    TopicPartition(topic, partition) for topic, partition in record.partitions
                )
            case OffsetsAdded():
                transaction = self._begin_if_needed(record.transactional_id, record.at)
                transaction.add_group(record.group_id, record.offsets)
            case LedgersAdded():
                transaction = self._begin_if_needed(record.transactional_id, record.at)
                transaction.ledgers.update(TopicPartition(*each) for each in record.partitions)
            case Prepared():
                self._prepare(record)
            case Completed():
                self._complete(record)
            case Forgotten():
                self._forget(record.transactional_id)
            case TransactionKept():
                self._keep(Transaction.from_record(record))
            case _:
                self._apply_to_group(record)

    def _apply_to_group(
        self,
        record: RunStarted
        | AttemptStarted
        | GroupDecided
        | GroupAborted
        | ApplicationKept
        | ApplicationForgotten,
    ) -> None:
        match record:
            case RunStarted():
                self._end_attempts(
                    self.applications.attempts_of_older_runs(record.application, record.run),
                    record.at,
                )
                self.applications.apply_run(record)
            case AttemptStarted():
                self._transaction(record.transactional_id).start_attempt(record)
                self.applications.apply_attempt(record)
            case GroupDecided():
                for each in record.transactional_ids:
                    transaction = self._transactions[each]
                    # A new epoch: a repetition of this decision cannot be taken for the next one.
                    self._prepare(decision(transaction, record.at, commits=True, fences=True))
                self._end_attempts(
                    self.applications.attempts_up_to(record.application, record.version), record.at
                )
                self.applications.apply_decision(record)
            case GroupAborted():
                self._end_attempts(
                    self.applications.attempts_at(record.application, record.version), record.at
                )
            case ApplicationKept():
                self.applications.restore(record)
            case ApplicationForgotten():
                self.applications.forget(record.application)

    def _end_attempts(self, transactional_ids: Iterable[str], at: Timestamp) -> None:
        """Abort those that have written; of the others nothing need be known."""
        for each in transactional_ids:
            transaction = self._transactions[each]
            if transaction.state is State.ONGOING:
                self._prepare(decision(transaction, at, commits=False, fences=True))
            else:
                self._forget(each)

    def _forget(self, transactional_id: str) -> None:
        self._touch(transactional_id)
        transaction = self._transactions.pop(transactional_id, None)
        if transaction is not None:
            self.applications.remove_attempt(transaction)

    def _transaction(self, transactional_id: str) -> Transaction:
        self._touch(transactional_id)
        found = self._transactions.get(transactional_id)
        if found is None:
            found = self._transactions[transactional_id] = Transaction(transactional_id)
        return found

    def _begin_if_needed(self, transactional_id: str, at: Timestamp) -> Transaction:
        self._touch(transactional_id)
        transaction = self._transactions[transactional_id]
        if transaction.state is not State.ONGOING:
            transaction.begin(at)
            self._ongoing[transactional_id] = transaction
            self._deadlines.add(transaction.deadline, transactional_id)
            self.counts.started += 1
        transaction.changed_at = max(transaction.changed_at, at)
        return transaction

    def _prepare(self, record: Prepared) -> None:
        self._touch(record.transactional_id)
        transaction = self._transactions[record.transactional_id]
        transaction.prepare(record)
        self.applications.remove_attempt(transaction)
        self._ongoing.pop(record.transactional_id, None)
        self._prepared[record.transactional_id] = transaction

    def _complete(self, record: Completed) -> None:
        self._touch(record.transactional_id)
        transaction = self._transactions[record.transactional_id]
        if transaction.commits:
            self.counts.committed += 1
        else:
            self.counts.aborted += 1
        transaction.complete(record.at)
        self._prepared.pop(record.transactional_id, None)
        if transaction.attempt is not None:
            self._forget(record.transactional_id)

    def _keep(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        self._touch(transactional_id)
        self._transactions[transactional_id] = transaction
        if transaction.state.is_prepared:
            self._prepared[transactional_id] = transaction
            return
        self.applications.restore_attempt(transaction)
        if transaction.state is State.ONGOING:
            self._ongoing[transactional_id] = transaction
            self._deadlines.add(transaction.deadline, transactional_id)

    def snapshot(self) -> Generator[TransactionRecord, None, None]:
        """The open ones in the order of their beginning, as `ongoing` has them."""
        ongoing = dict.fromkeys(self._ongoing)
        resting = (each for each in list(self._transactions) if each not in ongoing)
        walk = self._walk = Walk(itertools.chain(resting, ongoing), self._to_record)
        return self._snapshot(self.applications.snapshot(), walk)

    def _to_record(self, transactional_id: str) -> TransactionKept | None:
        found = self._transactions.get(transactional_id)
        return None if found is None else found.to_record()

    def _snapshot(
        self,
        applications: list[ApplicationKept],
        walk: Walk[str, TransactionKept | None],
    ) -> Generator[TransactionRecord, None, None]:
        try:
            yield from applications
            yield from filter(None, walk)
        finally:
            if walk is self._walk:
                self._walk = None

    def _touch(self, transactional_id: str) -> None:
        """It is going to change: a snapshot that has not reached it keeps it as it is."""
        if self._walk is not None:
            self._walk.keep(transactional_id)

    def encode(self, record: TransactionRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> TransactionRecord:
        return decode(data)

    # --- time -------------------------------------------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        soonest = self._deadlines.soonest()
        if not self._transactions and not self.applications.known:
            return soonest
        return self._sweep_at if soonest is None else min(soonest, self._sweep_at)

    def on_deadline(self, now: Timestamp) -> Decision[TransactionRecord, tuple[MustEnd, ...]]:
        """Abort what has taken too long, and fence who did; forget ids long unused.

        A transaction that began in the future did so before the clock was set back: one that is
        further ahead than its time-out would last too long by that.
        """
        due = self._deadlines.find_due(now)
        due += [
            transactional_id
            for transactional_id, transaction in self._ongoing.items()
            if transaction.started_at > now + transaction.timeout_ms
        ]
        records: list[TransactionRecord] = [
            decision(self._transactions[each], now, commits=False, fences=True) for each in due
        ]
        records.extend(self._sweep(now))
        return Decision(tuple(records), tuple(MustEnd(each) for each in due))

    def _is_deadline(self, deadline: int, transactional_id: str) -> bool:
        transaction = self._ongoing.get(transactional_id)
        return transaction is not None and transaction.deadline == deadline

    def _sweep(self, now: Timestamp) -> list[TransactionRecord]:
        if now < self._sweep_at:
            return []
        self._sweep_at = Timestamp(now + SWEEP_MS)
        idle: list[TransactionRecord] = [
            Forgotten(transactional_id)
            for transactional_id, transaction in self._transactions.items()
            if (transaction.state is State.EMPTY or transaction.state.is_complete)
            and transaction.changed_at < now - IDLE_MS_MAX
        ]
        idle.extend(ApplicationForgotten(each) for each in self.applications.find_idle(now))
        return idle

"""The transaction coordinator: decides who may write, and how every transaction ends.

    verb(now, …) ──> Decision(records, reply)       reads state
    apply(record)                                   changes it
    next_deadline() / on_deadline(now)              transactions that took too long are aborted

It never writes a marker itself.  Who holds the machine looks at `prepared`: for each transaction
there, write the markers and commit the offsets, then submit `completed`.  That may be repeated
any number of times, before and after a crash, until it succeeds.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.model.machine import Decision
from goqueue.txn.errors import (
    ApplicationFenced,
    ConcurrentTransactions,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdNotFound,
    UnknownProducer,
    VersionGoesBack,
)
from goqueue.txn.records import (
    ApplicationKept,
    Completed,
    Forgotten,
    GroupDecided,
    OffsetsAdded,
    PartitionsAdded,
    PendingOffset,
    Prepared,
    ProducerRegistered,
    RunStarted,
    State,
    TopicPartition,
    TransactionKept,
    TransactionRecord,
    decode,
    encode,
)
from goqueue.txn.transaction import Transaction

EPOCH_MAX: Final = 2**15 - 1
TIMEOUT_MS_MAX: Final = 15 * 60_000
IDLE_MS_MAX: Final = 7 * 24 * 3_600_000
SWEEP_MS: Final = 3_600_000


class ProducerIdentity(msgspec.Struct, frozen=True):
    """Who writes in a transaction."""

    producer_id: int
    epoch: int


class MustEnd(msgspec.Struct, frozen=True):
    """First this transactional id's transaction must be completed; then ask again."""

    transactional_id: str


class Application(msgspec.Struct):
    run: int = -1
    version: int = -1  # the last one decided


class TransactionMachine:
    """All transactional ids of a coordinator.  Verbs raise `TransactionError` to refuse."""

    def __init__(self, timeout_ms_max: int = TIMEOUT_MS_MAX) -> None:
        self._timeout_ms_max = timeout_ms_max
        self._transactions: dict[str, Transaction] = {}
        self._applications: dict[str, Application] = {}
        self._prepared: dict[str, Transaction] = {}
        self._deadlines: list[tuple[int, str]] = []  # heap; an entry may be out of date
        self._sweep_at = Timestamp(0)

    # --- asking -----------------------------------------------------------------------------------

    @property
    def prepared(self) -> Sequence[Transaction]:
        """Those that are decided and not yet carried out."""
        return list(self._prepared.values())

    def all(self) -> list[Transaction]:
        return list(self._transactions.values())

    def find(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        found = self._transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        return found

    def is_in_transaction(
        self, transactional_id: str, who: ProducerIdentity, partition: TopicPartition
    ) -> bool:
        """Whether this producer may write to the partition; raises when it is not the producer."""
        transaction = self._of(transactional_id, who)
        return transaction.state is State.ONGOING and partition in transaction.partitions

    def last_version(self, application: str) -> int:
        """The last version decided for the application; -1 for none."""
        found = self._applications.get(application)
        return found.version if found else -1

    # --- producers --------------------------------------------------------------------------------

    def init(
        self,
        now: Timestamp,
        transactional_id: str,
        *,
        timeout_ms: int,
        new_producer_id: int,
        expected: ProducerIdentity | None = None,
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd]:
        """A producer starts: fence the one before it, end what that one left open."""
        if not 0 < timeout_ms <= self._timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"transaction timeout {timeout_ms} ms; allowed are 1 to {self._timeout_ms_max}"
            )
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return self._registered(now, transactional_id, timeout_ms, new_producer_id, 0)
        if expected is not None and not _is_known(transaction, expected):
            raise ProducerFenced(
                f"{transactional_id!r} is at producer {transaction.producer_id} epoch"
                f" {transaction.epoch}, not {expected.producer_id} epoch {expected.epoch}"
            )
        if transaction.state.is_prepared:
            return Decision((), MustEnd(transactional_id))
        if transaction.state is State.ONGOING:
            record = _prepared(transaction, now, commits=False, fences=True, spare=new_producer_id)
            return Decision((record,), MustEnd(transactional_id))
        if transaction.epoch >= EPOCH_MAX - 1:
            return self._registered(now, transactional_id, timeout_ms, new_producer_id, 0)
        return self._registered(
            now, transactional_id, timeout_ms, transaction.producer_id, transaction.epoch + 1
        )

    def _registered(
        self, now: Timestamp, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd]:
        before = self._transactions.get(transactional_id)
        record = ProducerRegistered(
            transactional_id,
            producer_id,
            epoch,
            timeout_ms,
            now,
            before.producer_id if before else -1,
            before.epoch if before else -1,
        )
        return Decision((record,), ProducerIdentity(producer_id, epoch))

    # --- taking part ------------------------------------------------------------------------------

    def add_partitions(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        partitions: Iterable[TopicPartition],
    ) -> Decision[TransactionRecord, None]:
        """The transaction writes to these; it begins with the first."""
        transaction = self._open(transactional_id, who)
        new = tuple(sorted(set(partitions) - self._held(transaction)))
        if not new and transaction.state is State.ONGOING:
            return Decision((), None)
        return Decision((PartitionsAdded(transactional_id, new, now),), None)

    def add_group(
        self, now: Timestamp, transactional_id: str, who: ProducerIdentity, group_id: str
    ) -> Decision[TransactionRecord, None]:
        """The group's offsets will be committed with the transaction."""
        transaction = self._open(transactional_id, who)
        if transaction.state is State.ONGOING and group_id in transaction.offsets:
            return Decision((), None)
        return Decision((OffsetsAdded(transactional_id, group_id, (), now),), None)

    def add_offsets(
        self,
        now: Timestamp,
        transactional_id: str,
        who: ProducerIdentity,
        group_id: str,
        offsets: Sequence[PendingOffset],
        *,
        adds_group: bool,
    ) -> Decision[TransactionRecord, None]:
        """Commit these offsets if, and when, the transaction commits."""
        transaction = self._open(transactional_id, who)
        is_known = transaction.state is State.ONGOING and group_id in transaction.offsets
        if not is_known and not adds_group:
            raise InvalidTransactionState(
                f"group {group_id!r} is not part of the transaction of {transactional_id!r}"
            )
        return Decision((OffsetsAdded(transactional_id, group_id, tuple(offsets), now),), None)

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
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd]:
        """Decide.  The reply is who the producer is from now on; `MustEnd`: carry it out first.

        With `bumps_epoch` each transaction has an epoch of its own, so that a write which comes
        late cannot slip into the next one (KIP-890); a client that missed the reply asks again
        with the old epoch.
        """
        transaction = self.get(transactional_id)
        if bumps_epoch and _is_previous(transaction, who):
            return self._ended_already(transaction, commits)
        self._check(transaction, who)
        if transaction.state.is_prepared or transaction.state.is_complete:
            if not bumps_epoch:
                return self._ended_already(transaction, commits)
            if transaction.state.is_prepared:
                return Decision((), MustEnd(transactional_id))
        if transaction.state is not State.ONGOING and not (bumps_epoch and not commits):
            raise InvalidTransactionState(
                f"{transactional_id!r} has no transaction to {'commit' if commits else 'abort'}"
            )
        record = _prepared(
            transaction, now, commits=commits, fences=bumps_epoch, spare=spare_producer_id
        )
        return Decision((record,), MustEnd(transactional_id))

    def _ended_already(
        self, transaction: Transaction, commits: bool
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd]:
        if transaction.state.is_prepared and transaction.commits == commits:
            return Decision((), MustEnd(transaction.transactional_id))
        if transaction.state.is_complete and transaction.commits == commits:
            return Decision((), ProducerIdentity(transaction.producer_id, transaction.epoch))
        raise InvalidTransactionState(
            f"{transaction.transactional_id!r} is {transaction.state}, it cannot"
            f" {'commit' if commits else 'abort'}"
        )

    def abort(
        self, now: Timestamp, transactional_id: str, spare_producer_id: int = -1
    ) -> Decision[TransactionRecord, MustEnd | None]:
        """An operator ends a transaction that hangs; its producer is fenced."""
        transaction = self.get(transactional_id)
        if transaction.state.is_prepared:
            return Decision((), MustEnd(transactional_id))
        if transaction.state is not State.ONGOING:
            return Decision((), None)
        record = _prepared(transaction, now, commits=False, fences=True, spare=spare_producer_id)
        return Decision((record,), MustEnd(transactional_id))

    def completed(
        self, now: Timestamp, transactional_id: str
    ) -> Decision[TransactionRecord, ProducerIdentity]:
        """All markers and offsets of the decided transaction are written."""
        transaction = self.get(transactional_id)
        who = ProducerIdentity(transaction.producer_id, transaction.epoch)
        if not transaction.state.is_prepared:
            return Decision((), who)
        return Decision((Completed(transactional_id, now),), who)

    # --- many at once, by one decision ------------------------------------------------------------

    def start_run(self, application: str, run: int) -> Decision[TransactionRecord, int]:
        """A run of an application starts; older ones are fenced.  Gives its last version."""
        known = self._applications.get(application)
        if known is not None and run < known.run:
            raise ApplicationFenced(f"run {run} of {application!r}; run {known.run} has started")
        if known is not None and run == known.run:
            return Decision((), known.version)
        return Decision((RunStarted(application, run),), known.version if known else -1)

    def decide_group(
        self,
        now: Timestamp,
        application: str,
        version: int,
        run: int,
        members: Sequence[tuple[str, ProducerIdentity]],
    ) -> Decision[TransactionRecord, bool]:
        """Commit all of `members` by one record.  False when the version was decided before.

        A version below the one before the last is a mistake of the caller (a lost checkpoint):
        silence would lose its data.
        """
        known = self._applications.get(application, Application())
        if run < known.run:
            raise ApplicationFenced(f"run {run} of {application!r}; run {known.run} has started")
        if version < known.version - 1:
            raise VersionGoesBack(
                f"{application!r} is at version {known.version}, {version} was decided long ago:"
                " has its checkpoint been deleted? Use another application name"
            )
        if version <= known.version:
            return Decision((), False)
        for transactional_id, who in members:
            transaction = self._of(transactional_id, who)
            if transaction.state is not State.ONGOING:
                raise InvalidTransactionState(
                    f"{transactional_id!r} is {transaction.state}, it cannot be committed"
                )
        ids = tuple(transactional_id for transactional_id, _ in members)
        return Decision((GroupDecided(application, version, ids, now),), True)

    # --- the log ----------------------------------------------------------------------------------

    def apply(self, record: TransactionRecord) -> None:
        match record:
            case ProducerRegistered():
                self._transaction(record.transactional_id).register(record)
            case PartitionsAdded():
                transaction = self._begun(record.transactional_id, record.at)
                transaction.partitions.update(
                    (topic, partition) for topic, partition in record.partitions
                )
            case OffsetsAdded():
                transaction = self._begun(record.transactional_id, record.at)
                transaction.add_offsets(record.group_id, record.offsets)
            case Prepared():
                transaction = self._transactions[record.transactional_id]
                transaction.prepare(record)
                self._prepared[record.transactional_id] = transaction
            case Completed():
                self._transactions[record.transactional_id].complete(record.at)
                self._prepared.pop(record.transactional_id, None)
            case Forgotten():
                self._transactions.pop(record.transactional_id, None)
            case RunStarted():
                self._application(record.application).run = record.run
            case GroupDecided():
                self._apply_group(record)
            case TransactionKept():
                self._keep(Transaction.restored(record))
            case ApplicationKept():
                application = self._application(record.application)
                application.run, application.version = record.run, record.version

    def _apply_group(self, record: GroupDecided) -> None:
        self._application(record.application).version = record.version
        for transactional_id in record.transactional_ids:
            transaction = self._transactions[transactional_id]
            transaction.prepare(_prepared(transaction, record.at, commits=True, fences=False))
            self._prepared[transactional_id] = transaction

    def _transaction(self, transactional_id: str) -> Transaction:
        found = self._transactions.get(transactional_id)
        if found is None:
            found = self._transactions[transactional_id] = Transaction(transactional_id)
        return found

    def _application(self, name: str) -> Application:
        return self._applications.setdefault(name, Application())

    def _begun(self, transactional_id: str, at: Timestamp) -> Transaction:
        transaction = self._transactions[transactional_id]
        if transaction.state is not State.ONGOING:
            transaction.begin(at)
            heapq.heappush(self._deadlines, (transaction.deadline, transactional_id))
        transaction.changed_at = at
        return transaction

    def _keep(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        self._transactions[transactional_id] = transaction
        if transaction.state.is_prepared:
            self._prepared[transactional_id] = transaction
        elif transaction.state is State.ONGOING:
            heapq.heappush(self._deadlines, (transaction.deadline, transactional_id))

    def snapshot(self) -> list[TransactionRecord]:
        records: list[TransactionRecord] = [
            ApplicationKept(name, known.run, known.version)
            for name, known in sorted(self._applications.items())
        ]
        records.extend(t.kept() for _, t in sorted(self._transactions.items()))
        return records

    def encode(self, record: TransactionRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> TransactionRecord:
        return decode(data)

    # --- time -------------------------------------------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        self._drop_stale_deadlines()
        soonest = [Timestamp(self._deadlines[0][0])] if self._deadlines else []
        if self._transactions:
            soonest.append(self._sweep_at)
        return min(soonest, default=None)

    def on_deadline(self, now: Timestamp) -> Decision[TransactionRecord, tuple[MustEnd, ...]]:
        """Abort what has taken too long, and fence who did; forget ids long unused."""
        records: list[TransactionRecord] = []
        ending: list[MustEnd] = []
        self._drop_stale_deadlines()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, transactional_id = heapq.heappop(self._deadlines)
            transaction = self._transactions[transactional_id]
            records.append(_prepared(transaction, now, commits=False, fences=True))
            ending.append(MustEnd(transactional_id))
            self._drop_stale_deadlines()
        records.extend(self._swept(now))
        return Decision(tuple(records), tuple(ending))

    def _drop_stale_deadlines(self) -> None:
        while self._deadlines:
            deadline, transactional_id = self._deadlines[0]
            transaction = self._transactions.get(transactional_id)
            if (
                transaction is not None
                and transaction.state is State.ONGOING
                and transaction.deadline == deadline
            ):
                return
            heapq.heappop(self._deadlines)

    def _swept(self, now: Timestamp) -> list[Forgotten]:
        if now < self._sweep_at:
            return []
        self._sweep_at = Timestamp(now + SWEEP_MS)
        return [
            Forgotten(transactional_id)
            for transactional_id, transaction in self._transactions.items()
            if (transaction.state is State.EMPTY or transaction.state.is_complete)
            and transaction.changed_at < now - IDLE_MS_MAX
        ]

    # --- checks -----------------------------------------------------------------------------------

    def _of(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """The transactional id's state, when `who` is its producer."""
        transaction = self.get(transactional_id)
        self._check(transaction, who)
        return transaction

    def _check(self, transaction: Transaction, who: ProducerIdentity) -> None:
        if who.producer_id != transaction.producer_id:
            if _is_previous(transaction, who):
                raise ProducerFenced(f"producer {who.producer_id} was replaced")
            raise UnknownProducer(
                f"producer {who.producer_id} does not belong to {transaction.transactional_id!r}"
            )
        if who.epoch != transaction.epoch:
            raise ProducerFenced(
                f"{transaction.transactional_id!r} is at epoch {transaction.epoch}, not {who.epoch}"
            )

    def _open(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """As `_of`, and something may be added to the transaction."""
        transaction = self._of(transactional_id, who)
        if transaction.state.is_prepared:
            raise ConcurrentTransactions(
                f"the transaction before this one of {transactional_id!r} is still being ended"
            )
        return transaction

    @staticmethod
    def _held(transaction: Transaction) -> set[TopicPartition]:
        return transaction.partitions if transaction.state is State.ONGOING else set()


def _is_previous(transaction: Transaction, who: ProducerIdentity) -> bool:
    return (
        who.producer_id == transaction.previous_producer_id
        and who.epoch == transaction.previous_epoch
    )


def _is_known(transaction: Transaction, who: ProducerIdentity) -> bool:
    is_current = who.producer_id == transaction.producer_id and who.epoch == transaction.epoch
    return is_current or _is_previous(transaction, who)


def _prepared(
    transaction: Transaction, now: Timestamp, *, commits: bool, fences: bool, spare: int = -1
) -> Prepared:
    """The decision.  With `fences` the producer's epoch rises, and the markers carry the new one.

    When epochs are used up the producer goes on under the `spare` id; without one it keeps the
    last epoch, and its next `init` gives it a new id.
    """
    epoch = transaction.epoch + 1 if fences and transaction.epoch < EPOCH_MAX else transaction.epoch
    producer_id, next_epoch = transaction.producer_id, epoch
    if fences and epoch >= EPOCH_MAX and spare >= 0:
        producer_id, next_epoch = spare, 0
    return Prepared(transaction.transactional_id, commits, epoch, producer_id, next_epoch, now)

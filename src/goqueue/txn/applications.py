"""Engines that commit many transactions at once: their runs, attempts, and what they decided.

An application (a streaming query, say) writes with many producers, and makes the work of one batch
visible by one decision, which carries the batch's number as its version.

    start_run(7)              runs below 7 are fenced from now on, and their attempts aborted
    start_named_run("b1f…")   the next run, or the one of that name if it is the newest: an engine
                              whose tasks share a name, and no number, start it all together
    start_attempt(41, …)      a producer for one attempt at one task of version 41
    decide(41, attempts)      new: these are committed, 41 is the last version, all other attempts
                              at 41 and below are aborted
    decide(41, attempts)      again, after a crash: known; its transactions are a repetition
    decide(41, …)             with other contents than before: a mistake, as its rows are others
    decide(12, …)             long past: a mistake, since silence would lose what was written
    abort(42)                 all attempts at 42 are aborted; nothing when 42 is decided

Attempts that have ended are forgotten: what is kept does not grow with the number of versions.
Members may also be producers that the engine started by `init`; those outlive the decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.model.machine import Decision
from goqueue.txn.errors import (
    ApplicationFenced,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    VersionDiffers,
    VersionGoesBack,
)
from goqueue.txn.identity import ProducerIdentity, check_identity, decision
from goqueue.txn.records import (
    ApplicationForgotten,
    ApplicationKept,
    Attempt,
    AttemptStarted,
    GroupAborted,
    GroupDecided,
    RunStarted,
    State,
    TransactionRecord,
)
from goqueue.txn.transaction import MustEnd, Transaction

NONE: Final = -1
# An engine's batch may take long, and a new run ends what an older one left open.
ATTEMPT_TIMEOUT_MS_MAX: Final = 24 * 3_600_000
RUN_NAMES_KEPT: Final = 16  # of fenced runs: what is given up does not outlive so many successors
# An application that comes back later than this and repeats its last version writes it twice.
APPLICATION_IDLE_MS_MAX: Final = 90 * 24 * 3_600_000

Members = Sequence[tuple[str, ProducerIdentity]]


class Application(msgspec.Struct):
    run: int = NONE
    version: int = NONE  # the last one decided
    at: Timestamp = Timestamp(NONE)  # when it was heard of last
    run_name: str = ""  # of the newest run, if it has one
    past_run_names: tuple[str, ...] = ()  # of those before it; the newest last
    contents: dict[int, str] = {}  # by version: of those that may be repeated, if it was said
    attempts: dict[str, Attempt] = {}  # by transactional id: those about which nothing is decided


class RunBegun(msgspec.Struct, frozen=True):
    run: int
    last_version: int
    aborted: tuple[str, ...]  # transactions of older runs


class GroupEnded(msgspec.Struct, frozen=True):
    """What became of a version's transactions."""

    was_decided: bool  # before; then only `aborted` has a meaning
    members: tuple[ProducerIdentity, ...]  # who the committed ones are from now on
    aborted: tuple[str, ...]  # transactions to complete, beside the members


class Applications:
    """Reads the machine's transactions; never changes one."""

    def __init__(self, transactions: Mapping[str, Transaction]) -> None:
        self._transactions = transactions
        self.known: dict[str, Application] = {}

    # --- asking -----------------------------------------------------------------------------------

    def find(self, name: str) -> Application | None:
        return self.known.get(name)

    def version(self, name: str) -> int:
        """The last version decided for the application; -1 for none."""
        return self._get(name).version

    def attempts_of_older_runs(self, name: str, run: int) -> list[str]:
        attempts = self._get(name).attempts
        return [each for each, attempt in attempts.items() if attempt.run < run]

    def attempts_at(self, name: str, version: int) -> list[str]:
        attempts = self._get(name).attempts
        return [each for each, attempt in attempts.items() if attempt.version == version]

    def attempts_up_to(self, name: str, version: int) -> list[str]:
        attempts = self._get(name).attempts
        return [each for each, attempt in attempts.items() if attempt.version <= version]

    def find_idle(self, now: Timestamp) -> list[str]:
        return [
            name
            for name, application in self.known.items()
            if NONE < application.at < now - APPLICATION_IDLE_MS_MAX and not application.attempts
        ]

    def _get(self, name: str) -> Application:
        return self.known.get(name) or Application()

    # --- verbs ------------------------------------------------------------------------------------

    def start_run(
        self, now: Timestamp, name: str, run: int
    ) -> Decision[TransactionRecord, RunBegun]:
        """A run of an application starts; older ones are fenced, and their attempts aborted."""
        return self._decide_run(name, run, self._new_run(now, name, run))

    def start_named_run(
        self, now: Timestamp, name: str, run_name: str
    ) -> Decision[TransactionRecord, RunBegun]:
        """The same for a run that is told by its name; one that was fenced stays so."""
        known = self._get(name)
        if run_name == known.run_name:
            return self._decide_run(name, known.run, ())
        if run_name in known.past_run_names:
            raise ApplicationFenced(
                f"run {run_name!r} of {name!r}; run {known.run_name or known.run!r} has started"
            )
        run = known.run + 1
        return self._decide_run(name, run, (RunStarted(name, run, now, run_name),))

    def _decide_run(
        self, name: str, run: int, records: tuple[TransactionRecord, ...]
    ) -> Decision[TransactionRecord, RunBegun]:
        aborted = self._open(self.attempts_of_older_runs(name, run))
        return Decision(records, RunBegun(run, self.version(name), aborted))

    def start_attempt(
        self,
        now: Timestamp,
        attempt: Attempt,
        transactional_id: str,
        *,
        timeout_ms: int,
        new_producer_id: int,
    ) -> Decision[TransactionRecord, ProducerIdentity | MustEnd | None]:
        """A producer of its own for one attempt; None when the version was decided before.

        Asked for a second time, it is another producer, and what the first one wrote is aborted:
        two that write under one number would be taken for one that repeats itself.
        """
        if not 0 < timeout_ms <= ATTEMPT_TIMEOUT_MS_MAX:
            raise InvalidTransactionTimeout(
                f"attempt timeout {timeout_ms} ms; allowed are 1 to {ATTEMPT_TIMEOUT_MS_MAX}"
            )
        if self._new_run(now, attempt.application, attempt.run):
            raise InvalidTransactionState(
                f"run {attempt.run} of {attempt.application!r} has not been started"
            )
        if not self._is_new_version(attempt.application, attempt.version):
            return Decision((), None)
        before = self._transactions.get(transactional_id)
        if before is not None and before.state.is_prepared:
            return Decision((), MustEnd(transactional_id))
        if before is not None and before.state is State.ONGOING:
            aborted = decision(before, now, commits=False, fences=True)
            return Decision((aborted,), MustEnd(transactional_id))
        started = AttemptStarted(transactional_id, attempt, new_producer_id, timeout_ms, now)
        return Decision((started,), ProducerIdentity(new_producer_id, 0))

    def decide(
        self,
        now: Timestamp,
        name: str,
        version: int,
        run: int,
        members: Members,
        contents: str = "",
    ) -> Decision[TransactionRecord, GroupEnded]:
        """Commit all of `members` by one record, and abort the version's other attempts."""
        records = self._new_run(now, name, run)
        ending = dict.fromkeys(self.attempts_of_older_runs(name, run))
        if not self._is_new_version(name, version):
            self._check_contents(name, version, contents)
            return Decision(records, GroupEnded(True, (), self._open(ending)))
        after = tuple(self._after(now, Attempt(name, run, version), *each) for each in members)
        named = dict.fromkeys(transactional_id for transactional_id, _ in members)
        ending |= dict.fromkeys(self.attempts_up_to(name, version))
        aborted = self._open(each for each in ending if each not in named)
        decided = GroupDecided(name, version, tuple(named), now, contents)
        return Decision((*records, decided), GroupEnded(False, after, aborted))

    def abort(
        self, now: Timestamp, name: str, version: int, run: int
    ) -> Decision[TransactionRecord, GroupEnded]:
        """Abort all attempts at the version, unless it is decided."""
        records = self._new_run(now, name, run)
        ending = dict.fromkeys(self.attempts_of_older_runs(name, run))
        if not self._is_new_version(name, version):
            return Decision(records, GroupEnded(True, (), self._open(ending)))
        attempts = self.attempts_at(name, version)
        aborted = self._open(ending | dict.fromkeys(attempts))
        if attempts:
            records = (*records, GroupAborted(name, version, now))
        return Decision(records, GroupEnded(False, (), aborted))

    def retire(self, name: str) -> Decision[TransactionRecord, bool]:
        """Forget an application that will not come back; False when there is none.

        It could repeat its last version then, and nobody would know.
        """
        known = self.known.get(name)
        if known is None:
            return Decision((), False)
        if known.attempts:
            raise InvalidTransactionState(
                f"{name!r} has {len(known.attempts)} attempts open: abort their version first"
            )
        return Decision((ApplicationForgotten(name),), True)

    def _new_run(self, now: Timestamp, name: str, run: int) -> tuple[TransactionRecord, ...]:
        """The record of a run that nobody has heard of; an older one is refused."""
        known = self._get(name)
        if run < known.run:
            raise ApplicationFenced(f"run {run} of {name!r}; run {known.run} has started")
        return (RunStarted(name, run, now),) if run > known.run else ()

    def _is_new_version(self, name: str, version: int) -> bool:
        """Whether nothing was decided for the version; one that is long past is refused."""
        known = self._get(name)
        if version < known.version - 1:
            raise VersionGoesBack(
                f"{name!r} is at version {known.version}, {version} was decided long ago:"
                " has its checkpoint been deleted, or does another driver run with it?"
            )
        return version > known.version

    def _check_contents(self, name: str, version: int, contents: str) -> None:
        """A repetition has the contents of the first time; others would be lost silently."""
        decided = self._get(name).contents.get(version, "")
        if contents and decided and contents != decided:
            raise VersionDiffers(
                f"version {version} of {name!r} was decided with {decided}, and now has {contents}"
            )

    def _after(
        self, now: Timestamp, group: Attempt, transactional_id: str, who: ProducerIdentity
    ) -> ProducerIdentity:
        """Who the member's producer is when the group is decided; refused when it cannot be."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise InvalidTransactionState(
                f"there is no {transactional_id!r}: its time ran out, or it was aborted;"
                f" write version {group.version} again"
            )
        check_identity(transaction, who)
        wrote_nothing = transaction.attempt is not None and transaction.state is State.EMPTY
        if transaction.state is not State.ONGOING and not wrote_nothing:
            raise InvalidTransactionState(
                f"{transactional_id!r} is {transaction.state}, it cannot be committed"
            )
        if transaction.attempt not in (None, group):
            raise InvalidTransactionState(
                f"{transactional_id!r} is not an attempt at version {group.version} of"
                f" {group.application!r} in run {group.run}"
            )
        prepared = decision(transaction, now, commits=True, fences=True)
        return ProducerIdentity(prepared.producer_id, prepared.epoch)

    def _open(self, transactional_ids: Iterable[str]) -> tuple[str, ...]:
        """Those that have written something, and so have to be completed."""
        return tuple(
            each for each in transactional_ids if self._transactions[each].state is State.ONGOING
        )

    # --- changing ---------------------------------------------------------------------------------

    def apply_run(self, record: RunStarted) -> None:
        application = self._touch(record.application, record.at)
        application.run = record.run
        if application.run_name:
            names = (*application.past_run_names, application.run_name)
            application.past_run_names = names[-RUN_NAMES_KEPT:]
        application.run_name = record.name

    def apply_attempt(self, record: AttemptStarted) -> None:
        application = self._touch(record.attempt.application, record.at)
        application.attempts[record.transactional_id] = record.attempt

    def restore_attempt(self, transaction: Transaction) -> None:
        attempt = transaction.attempt
        if attempt is not None:
            application = self.known.setdefault(attempt.application, Application())
            application.attempts[transaction.transactional_id] = attempt

    def remove_attempt(self, transaction: Transaction) -> None:
        attempt = transaction.attempt
        if attempt is not None and attempt.application in self.known:
            self.known[attempt.application].attempts.pop(transaction.transactional_id, None)

    def apply_decision(self, record: GroupDecided) -> None:
        application = self._touch(record.application, record.at)
        application.version = record.version
        application.contents = {
            version: contents
            for version, contents in application.contents.items()
            if version == record.version - 1
        }
        if record.contents:
            application.contents[record.version] = record.contents

    def _touch(self, name: str, at: Timestamp) -> Application:
        application = self.known.setdefault(name, Application())
        application.at = max(application.at, at)
        return application

    def forget(self, name: str) -> None:
        self.known.pop(name, None)

    def restore(self, kept: ApplicationKept) -> None:
        self.known[kept.application] = Application(
            kept.run,
            kept.version,
            kept.at,
            kept.run_name,
            kept.past_run_names,
            dict(kept.contents),
        )

    def snapshot(self) -> list[ApplicationKept]:
        return [
            ApplicationKept(
                name,
                known.run,
                known.version,
                known.at,
                known.run_name,
                known.past_run_names,
                dict(known.contents),
            )
            for name, known in sorted(self.known.items())
        ]

"""The transaction machines of the shards that this node leads, asked as if they were one.

A transactional id belongs to one shard, whose machine is asked; `NotCoordinator` is raised when
another node leads it.  Questions about all ids are about those of this node.
"""

from collections.abc import Callable, Iterable, Sequence

from goqueue.model.ids import TopicPartition
from goqueue.txn import (
    Applications,
    Counts,
    OpenTransaction,
    ProducerIdentity,
    Transaction,
    TransactionMachine,
)


class TransactionMachines:
    """They run ahead of their logs."""

    def __init__(
        self,
        machine_of: Callable[[str], TransactionMachine],
        machines: Callable[[], Iterable[TransactionMachine]],
    ) -> None:
        self._machine_of = machine_of
        self._machines = machines

    # --- of one id --------------------------------------------------------------------------------

    def find(self, transactional_id: str) -> Transaction | None:
        return self._machine_of(transactional_id).find(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        return self._machine_of(transactional_id).get(transactional_id)

    def check(self, transactional_id: str, who: ProducerIdentity) -> Transaction:
        """The transactional id's state, when `who` is its producer; raises when not."""
        return self._machine_of(transactional_id).check(transactional_id, who)

    def is_in_transaction(
        self, transactional_id: str, who: ProducerIdentity, partition: TopicPartition
    ) -> bool:
        """Whether this producer may write to the partition; raises when it is not the producer."""
        machine = self._machine_of(transactional_id)
        return machine.is_in_transaction(transactional_id, who, partition)

    def applications_of(self, application: str) -> Applications:
        """Where the application is; its attempts are in the same shard."""
        return self._machine_of(application).applications

    # --- of all -----------------------------------------------------------------------------------

    def all(self) -> list[Transaction]:
        return [each for machine in self._machines() for each in machine.all()]

    @property
    def ongoing(self) -> Sequence[Transaction]:
        """Those that are open, the oldest first."""
        found = [each for machine in self._machines() for each in machine.ongoing]
        return sorted(found, key=lambda each: each.started_at)

    @property
    def prepared(self) -> Sequence[Transaction]:
        """Those that are decided and not complete."""
        return [each for machine in self._machines() for each in machine.prepared]

    @property
    def counts(self) -> Counts:
        """How many transactions began and ended since this node coordinates."""
        total = Counts()
        for machine in self._machines():
            total.started += machine.counts.started
            total.committed += machine.counts.committed
            total.aborted += machine.counts.aborted
        return total

    def find_owner(self, found: OpenTransaction) -> Transaction | None:
        """The open transaction whose end is also the end of `found`."""
        owners = (machine.find_owner(found) for machine in self._machines())
        return next((each for each in owners if each is not None), None)

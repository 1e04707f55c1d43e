"""Who may write in a transaction, and who it is after the transaction ended."""

import msgspec

from goqueue.model.ids import PRODUCER_EPOCH_MAX, Timestamp
from goqueue.txn.errors import ProducerFenced, UnknownProducer
from goqueue.txn.records import Prepared
from goqueue.txn.transaction import Transaction


class ProducerIdentity(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int


def identity_of(transaction: Transaction) -> ProducerIdentity:
    return ProducerIdentity(transaction.producer_id, transaction.epoch)


def check_identity(transaction: Transaction, who: ProducerIdentity) -> None:
    """Raises unless `who` is the producer now."""
    if who.producer_id != transaction.producer_id:
        if is_previous(transaction, who):
            raise ProducerFenced(f"producer {who.producer_id} was replaced")
        raise UnknownProducer(
            f"producer {who.producer_id} does not belong to {transaction.transactional_id!r}"
        )
    if who.epoch != transaction.epoch:
        raise ProducerFenced(
            f"{transaction.transactional_id!r} is at epoch {transaction.epoch}, not {who.epoch}"
        )


def is_previous(transaction: Transaction, who: ProducerIdentity) -> bool:
    """Whether `who` was the producer before the last change, and may have missed the reply."""
    return who != identity_of(transaction) and who == ProducerIdentity(
        transaction.previous_producer_id, transaction.previous_epoch
    )


def is_known(transaction: Transaction, who: ProducerIdentity) -> bool:
    return who == identity_of(transaction) or is_previous(transaction, who)


def needs_new_id(transaction: Transaction | None) -> bool:
    """Whether the next change of epoch needs a producer id in reserve."""
    return transaction is None or transaction.epoch >= PRODUCER_EPOCH_MAX - 2


def decision(
    transaction: Transaction,
    now: Timestamp,
    *,
    commits: bool,
    fences: bool,
    spare: int = -1,
) -> Prepared:
    """How the transaction ends.  With `fences` the epoch rises, and the markers carry the new one.

    When epochs are used up the producer goes on under the `spare` id; without one it keeps the
    last epoch, and its next `init` gives it a new id.  An attempt's producer never goes on: its
    markers carry the last epoch, and partitions forget a producer with that.

    The time tells a producer's decisions apart, so no two of them have the same.
    """
    now = max(now, Timestamp(transaction.changed_at + 1))
    if transaction.attempt is not None:
        producer_id = transaction.producer_id
        return Prepared(
            transaction.transactional_id,
            commits,
            PRODUCER_EPOCH_MAX,
            producer_id,
            PRODUCER_EPOCH_MAX,
            now,
        )
    epoch = (
        transaction.epoch + 1
        if fences and transaction.epoch < PRODUCER_EPOCH_MAX
        else transaction.epoch
    )
    producer_id, next_epoch = transaction.producer_id, epoch
    if fences and epoch >= PRODUCER_EPOCH_MAX and spare >= 0:
        producer_id, next_epoch = spare, 0
    return Prepared(transaction.transactional_id, commits, epoch, producer_id, next_epoch, now)

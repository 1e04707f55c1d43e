"""What a former version wrote to `__transactions`, and belongs elsewhere now; once, at the start.

- Offsets of groups waited there for the end of their transaction: the groups get them.
- Queues had messages reserved for a transactional id: the coordinator learns of their ledgers, and
  they are reserved for the producer.
- A decision said where the transaction's records begin, for the next one could begin before the
  completion was durable.  Where its producer's open records begin elsewhere, they are the next
  one's, and no marker goes there.
"""

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.participants import FindPartition
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import GroupId, TopicPartition
from goqueue.queue import Owner
from goqueue.txn import Leftovers, Transaction


async def take_over_leftovers(
    log: TransactionLog, groups: Groups, acks: TransactionAcks, find_partition: FindPartition
) -> None:
    for place, owner in list(acks.owners()):
        found = log.ahead.find(owner.transactional_id)
        if owner.producer_id < 0 and found is not None and found.is_open:
            await _take_acks_over(found, place, log, acks)
    for transaction in [*log.ahead.ongoing, *log.ahead.prepared]:
        if transaction.leftovers is not None:
            await _take_over(transaction, transaction.leftovers, log, groups, find_partition)


async def _take_acks_over(
    transaction: Transaction, place: TopicPartition, log: TransactionLog, acks: TransactionAcks
) -> None:
    """The coordinator knows of the ledger before that changes: both may come a second time."""
    name = transaction.transactional_id
    await log.host_of(name).submit(lambda machine: machine.note_ledger(name, place))
    await acks.rename_owner(name, Owner(*transaction.open_producer, name))


async def _take_over(
    transaction: Transaction,
    left: Leftovers,
    log: TransactionLog,
    groups: Groups,
    find_partition: FindPartition,
) -> None:
    await _hand_offsets_over(transaction, left, groups)
    partitions = [
        each
        for each in transaction.partitions
        if each not in left.starts
        or left.starts[each] == await _first_offset(transaction, each, find_partition)
    ]
    await log.host_of(transaction.transactional_id).submit(
        lambda machine: machine.clear_leftovers(transaction.transactional_id, partitions)
    )


async def _hand_offsets_over(transaction: Transaction, left: Leftovers, groups: Groups) -> None:
    producer_id, epoch = transaction.open_producer
    for group_id, offsets in left.offsets.items():
        request = CommitRequest(
            group_id=GroupId(group_id),
            offsets=tuple(
                OffsetToCommit(
                    each.topic, each.partition, each.offset, each.leader_epoch, each.metadata
                )
                for each in offsets.values()
            ),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        await groups.commit(request)


async def _first_offset(
    transaction: Transaction, at: TopicPartition, find_partition: FindPartition
) -> int | None:
    try:
        partition = await find_partition(*at)
    except TopicNotFound:
        return None
    return partition.log.producers.open_transactions.get(transaction.marker_producer_id)

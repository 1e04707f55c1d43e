"""Records of the transaction log keep their names on disk, whatever the code calls them."""

from goqueue.model.ids import Offset, Timestamp, TopicName, TopicPartition
from goqueue.txn import State
from goqueue.txn.records import (
    LastCommit,
    OffsetsAdded,
    PendingOffset,
    Prepared,
    TransactionKept,
    decode,
    encode,
)

AT = Timestamp(7)


def test_a_decision_keeps_its_names_on_disk():
    record = Prepared("tx", True, 3, 5, 4, AT)
    data = (
        b'{"type":"prepared","transactional_id":"tx","commits":true,"marker_epoch":3,'
        b'"producer_id":5,"epoch":4,"at":7}'
    )
    assert encode(record) == data
    assert decode(data) == record


def test_a_transaction_in_a_snapshot_keeps_its_names_on_disk():
    record = TransactionKept(
        "tx",
        5,
        4,
        1000,
        State.PREPARE_COMMIT,
        (TopicPartition(TopicName("orders"), 0),),
        {"billing": ()},
        AT,
        AT,
        5,
        3,
        -1,
        -1,
        None,
        None,
        LastCommit(5, 1, 2, AT, (TopicPartition(TopicName("orders"), 1),)),
        (TopicPartition(TopicName("jobs"), 2),),
    )
    data = (
        b'{"type":"kept","transactional_id":"tx","producer_id":5,"epoch":4,"timeout_ms":1000,'
        b'"state":"prepare_commit","partitions":[["orders",0]],"offsets":{"billing":[]},'
        b'"started_at":7,"changed_at":7,"marker_producer_id":5,"marker_epoch":3,"previous_producer_id":-1,'
        b'"previous_epoch":-1,"attempt":null,"starts":null,"committed":[5,1,2,7,[["orders",1]]],'
        b'"ledgers":[["jobs",2]]}'
    )
    assert encode(record) == data
    assert decode(data) == record


def test_what_a_former_version_wrote_is_read():
    """`upgrade.py` takes it over: offsets of groups, and where records of a decided one begin."""
    decided = decode(
        b'{"type":"prepared","transactional_id":"tx","commits":true,"marker_epoch":3,'
        b'"producer_id":5,"epoch":4,"at":7,"starts":[10,-1]}'
    )
    assert decided == Prepared("tx", True, 3, 5, 4, AT, (10, -1))
    added = decode(
        b'{"type":"offsets","transactional_id":"tx","group_id":"billing",'
        b'"offsets":[["orders",0,7,-1,""]],"at":7}'
    )
    offset = PendingOffset(TopicName("orders"), 0, Offset(7))
    assert added == OffsetsAdded("tx", "billing", (offset,), AT)
    kept = decode(
        b'{"type":"kept","transactional_id":"tx","producer_id":5,"epoch":4,"timeout_ms":1000,'
        b'"state":"prepare_commit","partitions":[["orders",0]],'
        b'"offsets":{"billing":[["orders",0,7,-1,""]]},"started_at":7,"changed_at":7,'
        b'"marker_producer_id":5,"marker_epoch":3,"previous_producer_id":5,"previous_epoch":3,'
        b'"attempt":null,"starts":[10],"last_commit":[5,2,[["orders",1]],[4]]}'
    )
    assert isinstance(kept, TransactionKept)
    assert (kept.offsets, kept.starts) == ({"billing": (offset,)}, (10,))


def test_a_snapshot_of_before_the_last_commit_was_kept_is_read():
    record = decode(
        b'{"type":"kept","transactional_id":"tx","producer_id":5,"epoch":4,"timeout_ms":1000,'
        b'"state":"empty","partitions":[],"offsets":{},"started_at":7,"changed_at":7,'
        b'"marker_producer_id":5,"marker_epoch":3,"previous_producer_id":-1,"previous_epoch":-1}'
    )
    assert isinstance(record, TransactionKept)
    assert record.committed is None

"""Records of the transaction log keep their names on disk, whatever the code calls them."""

from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.txn import State
from goqueue.txn.records import LastCommit, Prepared, TransactionKept, decode, encode

AT = Timestamp(7)


def test_a_decision_keeps_its_names_on_disk():
    record = Prepared("tx", True, 3, 5, 4, AT, (10, -1))
    data = (
        b'{"type":"prepared","transactional_id":"tx","commits":true,"marker_epoch":3,'
        b'"producer_id":5,"epoch":4,"at":7,"starts":[10,-1]}'
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
        {},
        AT,
        AT,
        5,
        3,
        -1,
        -1,
        None,
        (10,),
        LastCommit(5, 2, (TopicPartition(TopicName("orders"), 1),), (4,)),
    )
    data = (
        b'{"type":"kept","transactional_id":"tx","producer_id":5,"epoch":4,"timeout_ms":1000,'
        b'"state":"prepare_commit","partitions":[["orders",0]],"offsets":{},"started_at":7,'
        b'"changed_at":7,"marker_producer_id":5,"marker_epoch":3,"previous_producer_id":-1,'
        b'"previous_epoch":-1,"attempt":null,"starts":[10],"last_commit":[5,2,[["orders",1]],[4]]}'
    )
    assert encode(record) == data
    assert decode(data) == record


def test_a_snapshot_of_before_the_last_commit_was_kept_is_read():
    record = decode(
        b'{"type":"kept","transactional_id":"tx","producer_id":5,"epoch":4,"timeout_ms":1000,'
        b'"state":"empty","partitions":[],"offsets":{},"started_at":7,"changed_at":7,'
        b'"marker_producer_id":5,"marker_epoch":3,"previous_producer_id":-1,"previous_epoch":-1}'
    )
    assert isinstance(record, TransactionKept)
    assert record.last_commit is None

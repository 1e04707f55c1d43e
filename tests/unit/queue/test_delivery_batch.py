from goqueue.model.batch import encode
from goqueue.model.ids import GroupId, Timestamp, TopicName
from goqueue.model.record import Record
from goqueue.queue.delivery_batch import DeliveryBatch, Run
from goqueue.queue.records import Where

WHERE = Where(GroupId("workers"), TopicName("jobs"), 0)


def records(*offsets):
    return [Record(offset, 0, None, b"%d" % offset) for offset in offsets]


def delivery(*chosen):
    return DeliveryBatch(WHERE, 7, Timestamp(99), list(chosen))


def test_messages_come_in_the_order_of_their_turns():
    (back,) = records(1)
    found = delivery(Run(records(5, 6), 0, b"b"), (back, 3, 2, 1, 1), Run(records(2, 3), 4, b"a"))
    assert found.count == 5
    messages = found.messages()
    assert [each.record.offset for each in messages] == [5, 6, 1, 2, 3]
    assert [each.attempt for each in messages] == [1, 1, 3, 1, 1]
    assert [each.lane for each in messages] == [0, 0, 2, 4, 4]
    assert [(each.failures, each.timeouts) for each in messages[1:4]] == [(0, 0), (1, 1), (0, 0)]
    assert messages[2].receipt == "jobs:0:1:3:7-0.workers"


def test_spans_are_in_order_and_as_few_as_can_be():
    (back,) = records(4)
    found = delivery(
        Run(records(5, 6, 8), 2, b"b"), (back, 2, 2, 1, 0), Run(records(2, 3), 2, b"a")
    )
    assert found.spans() == [(2, 3, 1), (4, 4, 2), (5, 6, 1), (8, 8, 1)]
    assert found.claims(10) == [(2, 3, 1, 10), (4, 4, 2, 12), (5, 6, 1, 13), (8, 8, 1, 15)]
    assert delivery(Run(records(2, 3), 2, b"a"), Run(records(4), 2, b"b")).spans() == [(2, 4, 1)]


def test_batches_are_given_once_and_in_order_when_all_are_at_hand():
    first, second = encode(records(0, 1, 2, 3), base_offset=0), encode(records(4), base_offset=4)
    runs = [
        Run(records(4), 0, second),
        Run(records(1, 3), 2, first),
        Run(records(2), 4, bytes(first)),  # another lane has read it, too
    ]
    assert delivery(*runs).batches() == first + second
    assert delivery(*runs, (records(7)[0], 2, 2)).batches() is None

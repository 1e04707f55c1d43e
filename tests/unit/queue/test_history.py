"""What is remembered of a message that came back."""

from goqueue.model.ids import Timestamp
from goqueue.queue.history import History
from goqueue.queue.records import HistorySnapshot


def test_a_message_that_came_back_was_delivered_once():
    history = History(Timestamp(5))
    assert (history.deliveries, history.failures, history.timeouts) == (1, 0, 0)
    assert (history.first_at, history.last_at, history.lease_id) == (5, 5, -1)


def test_a_snapshot_has_each_field_in_its_place():
    history = History(Timestamp(1))
    history.last_at = Timestamp(2)
    history.deliveries, history.failures, history.timeouts = 3, 4, 5
    history.consumer, history.error, history.lease_id = "ann", "no", 6
    assert history.snapshot(9) == HistorySnapshot(
        offset=9,
        deliveries=3,
        failures=4,
        first_at=Timestamp(1),
        last_at=Timestamp(2),
        consumer="ann",
        error="no",
        lease_id=6,
        timeouts=5,
    )

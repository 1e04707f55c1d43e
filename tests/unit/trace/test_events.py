from goqueue.trace.events import NAMES, Space, Step, in_order
from tests.unit.trace.trace_events import DEAD, at, event


def test_an_event_holds_the_messages_of_its_range():
    found = event(1, Step.FETCHED, 10, 19)
    assert [found.holds(at(offset)) for offset in (9, 10, 19, 20)] == [False, True, True, False]
    assert not found.holds(at(10, DEAD))
    assert not found.holds(at(10, partition=1))
    assert not found.holds(at(10, space=Space.DELAYS))
    assert found.count == 10


def test_a_link_continues_offset_by_offset():
    found = event(1, Step.DLQ_ROUTED, 10, 12, link_topic_id=DEAD, link_partition=0, link_first=100)
    assert found.link_of(11) == at(101, DEAD)
    assert [found.leads_to(at(offset, DEAD)) for offset in (99, 100, 102, 103)] == [
        False,
        True,
        True,
        False,
    ]
    assert found.source_of(at(102, DEAD)) == at(12)
    assert event(1, Step.ACKED).link_of(0) is None


def test_every_step_has_a_name():
    assert set(NAMES) == set(Step)
    assert len(set(NAMES.values())) == len(Step)


def test_events_of_the_same_time_stay_in_the_order_of_their_process():
    late, first, second = event(9, Step.ACKED), event(5, Step.NACKED), event(5, Step.RELEASED)
    assert in_order([late, second, first]) == [first, second, late]

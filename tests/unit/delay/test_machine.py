"""The timers of a partition: what waits, what is delivered once, and that a replay is the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.delay.errors import DelayedMessageFinished
from goqueue.delay.machine import CANCELLED_KEPT, Copy, DelayMachine
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision

NOW = Timestamp(1_800_000_000_000)


def do(machine: DelayMachine, decision: Decision[Any, Any]) -> Any:
    for record in decision.records:
        machine.apply(machine.decode(machine.encode(record)))
    return decision.reply


def scheduled(*delays: int) -> DelayMachine:
    machine = DelayMachine(NOW)
    offsets = range(len(delays))
    do(machine, machine.index(Offset(len(delays)), [NOW + each for each in delays], offsets))
    return machine


def copy_of(machine: DelayMachine) -> DelayMachine:
    other = DelayMachine(NOW)
    for record in machine.snapshot():
        other.apply(other.decode(other.encode(record)))
    return other


def lowest(machine: DelayMachine) -> int:
    return min(offset for some in machine.needed_offsets() for offset in some)


def take_all(machine: DelayMachine, now: int) -> list[int]:
    found = []
    while some := machine.take(Timestamp(now), 3):
        found += [offset for _, offset in some]
    return found


def test_what_is_due_is_taken_in_order_and_once():
    machine = scheduled(30, 10, 20, 10)
    assert machine.pending == 4
    assert take_all(machine, NOW + 20) == [1, 3, 2]
    assert take_all(machine, NOW + 20) == []
    do(machine, machine.deliver([1, 3, 2], Offset(3)))
    assert (machine.pending, machine.delivered_total, machine.data_end) == (1, 3, 3)


def test_a_cancelled_message_is_never_taken():
    machine = scheduled(10, 20)
    assert do(machine, machine.cancel(Offset(0), NOW + 10)) == NOW + 10
    assert machine.state_of(0, NOW + 10) == "cancelled"
    with pytest.raises(DelayedMessageFinished, match="cancelled already"):
        machine.cancel(Offset(0), NOW + 10)
    assert take_all(machine, NOW + 99) == [1]


def test_a_rescheduled_message_goes_at_its_new_time_and_only_then():
    machine = scheduled(10, 20)
    do(machine, machine.reschedule(Offset(0), NOW + 10, Timestamp(NOW + 500)))
    do(machine, machine.reschedule(Offset(0), NOW + 10, Timestamp(NOW + 300)))
    assert machine.due_of(0, NOW + 10) == NOW + 300
    assert take_all(machine, NOW + 299) == [1]
    assert take_all(machine, NOW + 999) == [0]
    assert machine.state_of(0, NOW + 300) == "delivered"


def test_what_could_not_be_written_is_put_back():
    machine = scheduled(10)
    entries = machine.take(Timestamp(NOW + 10), 5)
    machine.put_back(entries)
    assert machine.pending == 1
    assert take_all(machine, NOW + 10) == [0]


def test_after_a_crash_what_the_data_has_is_not_delivered_again():
    before = scheduled(10, 20, 30)
    take_all(before, NOW + 20)  # and both were written to the data
    after = copy_of(before)
    after.note_found([0, 1])
    assert after.pending == 1
    assert take_all(after, NOW + 99) == [2]
    do(after, after.deliver([0, 1], Offset(2)))
    assert after.delivered_total == 2


def test_a_replayed_delivery_is_not_repeated():
    machine = scheduled(10, 20)
    do(machine, machine.deliver([0], Offset(1)))  # the wheel has it still
    assert machine.pending == 1
    assert machine.is_over(0)
    assert take_all(copy_of(machine), NOW + 99) == [1]
    assert take_all(machine, NOW + 99) == [1]


def test_only_the_newest_are_known_as_cancelled():
    count = CANCELLED_KEPT + 5
    machine = scheduled(*([50_000] * count))
    for offset in range(count):
        do(machine, machine.cancel(Offset(offset), NOW + 50_000))
    assert machine.state_of(0, NOW + 50_000) == "delivered"  # or cancelled long ago
    assert machine.state_of(count - 1, NOW + 50_000) == "cancelled"
    assert machine.cancelled_total == count


def test_the_lowest_offset_that_is_needed():
    machine = scheduled(10, 900_000, 20)
    take_all(machine, NOW + 20)
    assert lowest(machine) == 0
    do(machine, machine.deliver([0, 2], Offset(2)))
    assert lowest(machine) == 1


def test_a_copy_is_another_place_of_a_message_that_waits():
    machine = scheduled(10, 900_000, 20, 30)
    take_all(machine, NOW + 20)
    do(machine, machine.deliver([0, 2], Offset(2)))
    copies = [Copy(n, 4 + n, NOW + due) for n, due in enumerate((10, 900_000, 20, 30))]
    do(machine, machine.index(Offset(8), (), (), copies))
    assert [machine.place_of(n) for n in range(4)] == [0, 5, 2, 7]
    again = copy_of(machine)
    assert (again.pending, again.place_of(1), again.moved) == (2, 5, 2)
    assert take_all(again, NOW + 30) == [3]
    do(again, again.deliver([3], Offset(3)))
    do(again, again.cancel(Offset(1), NOW + 900_000))
    assert again.moved == 0


def test_an_expired_message_is_over_and_known_as_such():
    machine = scheduled(10, 20)
    take_all(machine, NOW + 10)
    do(machine, machine.expire([0]))
    for each in (machine, copy_of(machine)):
        assert (each.pending, each.expired_total, each.delivered_total) == (1, 1, 0)
        assert each.state_of(0, NOW + 10) == "expired"
        with pytest.raises(DelayedMessageFinished, match="expired already"):
            each.cancel(Offset(0), NOW + 10)
        assert take_all(each, NOW + 99) == [1]


steps = st.lists(
    st.tuples(
        st.sampled_from(("index", "cancel", "move", "take", "deliver", "restart")),
        st.integers(0, 100_000),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(steps)
def test_each_message_is_delivered_once_whatever_happens(script: list[tuple[str, int]]):
    """`data` is the partition's data; a restart forgets all that was not written."""
    machine, now, end = DelayMachine(NOW), int(NOW), 0
    data: list[int] = []
    noted = 0
    dues: dict[int, int] = {}
    first: dict[int, int] = {}
    cancelled: set[int] = set()
    for verb, number in script:
        waiting = sorted(dues.keys() - set(data) - cancelled)
        if verb == "index":
            do(machine, machine.index(Offset(end + 1), [now + number], [end]))
            dues[end] = first[end] = now + number
            end += 1
        elif verb == "cancel" and waiting:
            offset = waiting[number % len(waiting)]
            do(machine, machine.cancel(Offset(offset), first[offset]))
            cancelled.add(offset)
        elif verb == "move" and waiting:
            offset = waiting[number % len(waiting)]
            due = Timestamp(now + number * 7)
            do(machine, machine.reschedule(Offset(offset), first[offset], due))
            dues[offset] = due
        elif verb == "take":
            now += number
            expected = sorted((dues[each], each) for each in waiting if dues[each] <= now)
            taken = take_all(machine, now)
            assert taken == [offset for _, offset in expected]
            data += taken
        elif verb == "deliver" and len(data) > noted:
            do(machine, machine.deliver(data[noted:], Offset(len(data))))
            noted = len(data)
        elif verb == "restart":
            machine = copy_of(machine)
            assert machine.data_end == noted
            machine.note_found(data[noted:])
        waiting = sorted(dues.keys() - set(data) - cancelled)
        assert machine.pending == len(waiting)
    assert len(data) == len(set(data))

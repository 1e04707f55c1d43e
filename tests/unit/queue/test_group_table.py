"""What the ledgers of all partitions have in common: groups, dead messages, reservations."""

import pytest

from goqueue.model.ids import GroupId, Offset
from goqueue.queue import GroupTable, QueueGroupNotFound, QueueMachine, QueueSettings, Where
from tests.unit.queue.harness import GROUP, TOPIC, TOPIC_ID, WHERE, Bench, bench_of


def test_a_group_that_nobody_knows_is_refused():
    with pytest.raises(QueueGroupNotFound, match="'nobody'"):
        GroupTable().group(GroupId("nobody"))


def test_a_group_is_made_once_with_the_settings_of_its_name():
    table = GroupTable(lambda group_id: QueueSettings(max_failures=len(group_id)))
    group = table.group_of(GROUP)
    assert table.group_of(GROUP) is table.group(GROUP) is group
    assert group.settings.max_failures == len(GROUP)
    assert not group.has_begun


def test_states_are_found_by_where_they_are():
    bench = bench_of(0)
    table, state = bench.machine.table, bench.state
    other = QueueMachine(TOPIC, 1, table)
    for record in other.open(bench.now, GROUP, TOPIC_ID, Offset(0)).records:
        other.apply(record)
    assert table.state(WHERE) is state
    assert table.state(Where(GROUP, TOPIC, 1)) is other.states[GROUP]
    assert table.state(Where(GROUP, TOPIC, 2)) is None
    assert table.state(Where(GroupId("nobody"), TOPIC, 0)) is None
    assert list(table.states()) == [state, other.states[GROUP]]
    assert table.group(GROUP).has_begun


@pytest.fixture
def bench() -> Bench:
    """One message is dead, two are acked by transactions, one is in flight."""
    bench = bench_of(4)
    receipts = bench.lease("ann", 4)
    bench.reject(receipts[:1])
    bench.reserve_for_transaction(receipts[1:2], "1:0:tx")
    bench.reserve_for_transaction(receipts[2:3], "2:0:ty")
    return bench


def test_dead_messages_are_listed_until_they_are_written(bench: Bench):
    table = bench.machine.table
    ((state, letters),) = table.dead()
    assert (state, [each.offset for each in letters], table.has_dead) == (bench.state, [0], True)
    bench.dead_letter()
    assert (table.dead(), table.has_dead) == ([], False)


def test_a_reservation_is_known_until_it_ends(bench: Bench):
    table = bench.machine.table
    assert table.reservations.keys() == {"1:0:tx", "2:0:ty"}
    bench.end_reservations("1:0:tx", commits=False)
    assert table.reservations == {"2:0:ty": {bench.state: None}}
    table.note_reservation_ended("nobody's", bench.state)
    assert table.reservations.keys() == {"2:0:ty"}


def test_a_state_that_is_dropped_leaves_nothing(bench: Bench):
    table = bench.machine.table
    group = table.group(GROUP)
    table.drop(bench.state)
    assert (table.dead(), table.reservations, group.states) == ([], {}, {})
    assert (group.book.in_flight, group.book.consumers) == (0, {})
    assert bench.state.alarm is None


def test_what_a_snapshot_brings_is_noted(bench: Bench):
    table = bench.replay_snapshot().table
    assert table.has_dead
    assert table.reservations.keys() == {"1:0:tx", "2:0:ty"}
    assert table.group(GROUP).book.consumers == {"ann": 3}


def test_a_state_that_is_taken_in_whole_is_noted(bench: Bench):
    """As out of snapshots of before, which have it in one record."""
    table = GroupTable()
    table.group_of(GROUP)
    table.put(bench.state)
    assert table.has_dead
    assert table.reservations.keys() == {"1:0:tx", "2:0:ty"}

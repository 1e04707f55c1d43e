"""Ledgers out of the log that all partitions shared."""

import msgspec

from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName
from goqueue.queue import GroupTable, QueueMachine, Where
from goqueue.queue.former_ledgers import FormerLedgers
from goqueue.queue.records import (
    DeadLettered,
    DeadLetterSnapshot,
    DeadLettersRemoved,
    Finished,
    Leased,
    LogShortened,
    Numbered,
    Opened,
    PartitionsForgotten,
    QueueRecord,
    Resumed,
)
from tests.unit.queue.harness import GROUP, TOPIC, TOPIC_ID, WHERE

BILLS = TopicName("bills")
LETTERS = TopicName("jobs.dlq")
SECOND = Where(GROUP, TOPIC, 1)
THIRD = Where(GROUP, BILLS, 0)


def open_record(where: Where, floor: int = 0) -> Opened:
    return Opened(where, TOPIC_ID, Offset(floor))


def lease_record(where: Where, lease_id: int, last: int = 0) -> Leased:
    return Leased(
        where,
        lease_id,
        "ann",
        Timestamp(1_000),
        Timestamp(2_000),
        fresh=((0, last, 2),),
        again=(),
        cursors=(last + 1,) * 5,
    )


def former_of(*records: QueueRecord) -> FormerLedgers:
    former = FormerLedgers(GroupTable())
    for record in records:
        former.apply(record)
    return former


def take_all(former: FormerLedgers) -> dict[tuple[str, int], QueueMachine]:
    return {(each.topic, each.partition): each for each in former.take()}


def test_each_record_goes_to_the_ledger_of_its_partition():
    former = former_of(open_record(WHERE, 3), open_record(SECOND, 4), open_record(THIRD, 5))
    floors = {place: each.states[GROUP].ack_floor for place, each in take_all(former).items()}
    assert floors == {(TOPIC, 0): 3, (TOPIC, 1): 4, (BILLS, 0): 5}


def test_every_ledger_counts_on_from_the_highest_number():
    former = former_of(
        open_record(WHERE), open_record(SECOND), lease_record(WHERE, 9), lease_record(SECOND, 4)
    )
    assert {each.next_lease_id for each in former.take()} == {10}
    former.apply(Numbered(50))
    assert {each.next_lease_id for each in former.take()} == {50}


def test_a_restart_concerns_all_ledgers():
    former = former_of(
        open_record(WHERE), open_record(SECOND), lease_record(WHERE, 1), lease_record(SECOND, 2)
    )
    former.apply(Resumed(Timestamp(50_000)))
    for ledger in former.take():
        assert [lease.deadline for lease in ledger.states[GROUP].leases] == [51_000]


def test_a_group_that_begins_anew_in_a_topic_does_so_in_its_partitions():
    former = former_of(open_record(WHERE), open_record(SECOND), open_record(THIRD))
    former.apply(PartitionsForgotten(GROUP, TOPIC))
    assert [bool(each.states) for each in former.take()] == [False, False, True]


def test_a_group_that_is_gone_leaves_every_ledger():
    other = Where(GroupId("others"), TOPIC, 0)
    former = former_of(open_record(WHERE), open_record(other), open_record(THIRD))
    former.forget_group(GROUP)
    assert [list(each.states) for each in former.take()] == [["others"], []]


def test_a_ledger_knows_up_to_where_its_dead_letters_are_written():
    written = DeadLettered(WHERE, ((0, 0),), LETTERS, Offset(4))
    former = former_of(open_record(WHERE), open_record(SECOND), lease_record(WHERE, 1), written)
    ends = {place: each.dead_letters_end for place, each in take_all(former).items()}
    assert ends == {(TOPIC, 0): 4, (TOPIC, 1): 0}
    former.apply(msgspec.structs.replace(written, dead_letters_end=Offset(2)))
    assert take_all(former)[TOPIC, 0].dead_letters_end == 4
    former.apply(LogShortened(LETTERS, 0, TOPIC_ID, Offset(3), 9))
    assert take_all(former)[TOPIC, 0].dead_letters_end == 3


def test_a_snapshot_of_dead_letters_says_it_too():
    said = DeadLetterSnapshot(LETTERS, 0, Offset(1), ((3, 3),), Offset(7))
    former = former_of(open_record(WHERE), said)
    ledgers = take_all(former)
    assert ledgers[TOPIC, 0].dead_letters_end == 7
    assert ledgers[LETTERS, 0].dead_letters.taken.ranges == ((3, 3),)


def test_a_topic_that_is_gone_takes_its_ledgers_and_its_letters_along():
    former = former_of(open_record(WHERE), open_record(THIRD), lease_record(WHERE, 1))
    former.apply(DeadLettered(WHERE, ((0, 0),), LETTERS, Offset(4)))
    former.apply(DeadLettersRemoved(LETTERS, 0, ((0, 0),)))
    former.forget_topic(LETTERS)
    assert take_all(former).keys() == {(TOPIC, 0), (BILLS, 0)}
    assert take_all(former)[TOPIC, 0].dead_letters_end == 0
    former.forget_topic(TOPIC)
    assert take_all(former).keys() == {(BILLS, 0)}


def test_the_log_of_before_can_be_written_and_read_again():
    former = former_of(
        open_record(WHERE),
        lease_record(WHERE, 9, last=4),
        Finished(WHERE, ((0, 1),)),
        DeadLettered(WHERE, (), LETTERS, Offset(4)),
        DeadLettersRemoved(LETTERS, 0, ((2, 2),)),
    )
    records = list(former.records())
    again = former_of(*records)
    assert list(again.records()) == records
    assert records[0] == Numbered(10)
    assert sum(isinstance(each, Numbered) for each in records) == 1
    assert take_all(again)[TOPIC, 0].dead_letters_end == 4
    assert take_all(again)[TOPIC, 0].states[GROUP].ack_floor == 2


def test_nothing_is_written_of_nothing():
    former = former_of()
    assert (list(former.records()), bool(former)) == ([], False)


def test_what_is_split_is_forgotten_here():
    former = former_of(open_record(WHERE), lease_record(WHERE, 1))
    assert former
    ledger = take_all(former)[TOPIC, 0]
    former.clear()
    assert not former
    assert ledger.states == {}
    assert ledger.table.group(GROUP).book.in_flight == 0

"""Dead letters: their headers, and the index of those that were removed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.batch import decode_all, header_at
from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp, TopicName
from goqueue.model.record import RECORD_HEADERS_MAX, Record
from goqueue.queue.dead_letter import (
    DeadLetterIndex,
    FailureHistory,
    dead_letter_topic,
    encode_batch,
    original,
    read_failure_history,
    split_by_size,
    to_dead_letter,
)
from goqueue.queue.records import DeadMessage, Move
from tests.unit.queue.harness import TOPIC_ID, WHERE

LETTER = DeadMessage(
    Offset(7), "max_failures", "no", "ann", 3, 2, Timestamp(10), Timestamp(20), Timestamp(30), 1
)
RECORD = Record(7, 5, b"k", b"v", (("own", b"1"), ("empty", None)))


def test_a_letter_says_why_the_message_failed_and_is_the_message_itself():
    letter = to_dead_letter(WHERE, LETTER, RECORD)
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"v", 5)
    assert read_failure_history(letter) == FailureHistory(
        dead_letter_id="workers/jobs/0/7",
        topic="jobs",
        partition=0,
        offset=7,
        group_id="workers",
        consumer="ann",
        reason="max_failures",
        error="no",
        attempts=3,
        failures=2,
        first_delivery=10,
        last_delivery=20,
        died_at=30,
        timeouts=1,
    )
    assert original(letter) == RECORD


def test_a_tenants_letter_has_the_names_that_its_users_know():
    where = msgspec.structs.replace(WHERE, topic="acme.jobs", group_id="acme.workers")
    letter = to_dead_letter(where, LETTER, RECORD, "acme")
    told = {name: value for name, value in letter.headers if name.startswith("gq-dlq-")}
    assert told["gq-dlq-id"] == b"workers/jobs/0/7"
    assert (told["gq-dlq-topic"], told["gq-dlq-group"]) == (b"jobs", b"workers")
    inside = read_failure_history(letter, "acme.jobs.dlq")
    assert inside is not None
    assert inside.dead_letter_id == "acme.workers/acme.jobs/0/7"
    assert (inside.topic, inside.group_id) == ("acme.jobs", "acme.workers")
    for topic in ("umbra.jobs.dlq", "acme", "acmejobs.dlq", ""):
        elsewhere = read_failure_history(letter, topic)
        assert elsewhere is not None
        assert (elsewhere.topic, elsewhere.group_id) == ("jobs", "workers")


def test_a_message_that_was_never_delivered_has_no_times_of_deliveries():
    never = msgspec.structs.replace(LETTER, first_at=NO_TIMESTAMP, last_at=NO_TIMESTAMP)
    history = read_failure_history(to_dead_letter(WHERE, never, RECORD))
    assert history is not None
    assert (history.first_delivery, history.last_delivery) == (None, None)
    at_once = msgspec.structs.replace(LETTER, first_at=Timestamp(0), last_at=Timestamp(0))
    history = read_failure_history(to_dead_letter(WHERE, at_once, RECORD))
    assert history is not None
    assert (history.first_delivery, history.last_delivery) == (0, 0)


def test_a_letter_that_dies_again_tells_of_its_last_death():
    again = to_dead_letter(
        WHERE,
        msgspec.structs.replace(LETTER, reason="rejected"),
        to_dead_letter(WHERE, LETTER, RECORD),
    )
    history = read_failure_history(again)
    assert history is not None
    assert history.reason == "rejected"
    assert original(again) == RECORD


def test_a_letter_can_be_read_however_many_headers_the_message_has():
    record = msgspec.structs.replace(RECORD, headers=(("own", b""),) * RECORD_HEADERS_MAX)
    letter = to_dead_letter(WHERE, LETTER, record)
    assert len(letter.headers) == RECORD_HEADERS_MAX
    assert read_failure_history(letter) is not None


@pytest.mark.parametrize("headers", [(), (("gq-dlq-id", b""),), (("gq-dlq-reason", b"rejected"),)])
def test_what_somebody_else_wrote_there_has_no_history(headers):
    assert read_failure_history(msgspec.structs.replace(RECORD, headers=headers)) is None


def test_what_a_letter_of_before_does_not_say_is_nothing():
    history = read_failure_history(msgspec.structs.replace(RECORD, headers=(("gq-dlq-id", b"i"),)))
    assert history == FailureHistory("i", "", 0, 0, "", "", "", "", 0, 0, None, None, 0, 0)


@pytest.mark.parametrize("text", [b"x", b"-1", b"9" * 20, b"", None, "²".encode()])
def test_a_number_that_is_none_does_not_stop_the_reader(text):
    headers = (("gq-dlq-id", b"id"), ("gq-dlq-attempts", text), ("gq-dlq-first-delivery", text))
    history = read_failure_history(msgspec.structs.replace(RECORD, headers=headers))
    assert history is not None
    assert (history.attempts, history.first_delivery) == (0, None)


def test_a_long_name_makes_room_for_the_suffix():
    assert dead_letter_topic("jobs") == "jobs.dlq"
    assert dead_letter_topic("t" * 249) == "t" * 245 + ".dlq"


# --- the index ------------------------------------------------------------------------------------

END = 24
RANGES = st.tuples(st.integers(0, END - 1), st.integers(0, 5)).map(
    lambda given: ((given[0], min(END - 1, given[0] + given[1])),)
)
STEPS = st.one_of(
    st.tuples(st.just("remove"), RANGES, st.integers(0, END)),
    st.tuples(st.just("shorten"), st.integers(0, END), st.none()),
)


@given(st.lists(STEPS, max_size=12))
def test_the_index_knows_what_a_set_of_offsets_would(steps):
    index, taken, floor = DeadLetterIndex(), set[int](), 0
    for verb, given_, limit in steps:
        if verb == "remove":
            index.remove(given_, limit)
            taken |= {each for first, last in given_ for each in range(first, last + 1)}
            floor = max(floor, limit)
            taken |= set(range(floor))
        else:
            index.shorten(given_)
            taken = {each for each in taken if each < given_}
            floor = min(floor, given_)
        assert {each for each in range(END) if index.is_taken(each)} == taken
        assert index.count(0, END) == END - len(taken)
        assert index.count(5, 9) == len(set(range(5, 9)) - taken)
        for end in range(END):
            assert index.reaches(end) == any(each >= end for each in taken)
        assert index.floor not in index.taken, "the floor is as high as can be"


def move(first: int, last: int) -> Move:
    return Move(((first, last),), TopicName("jobs"), TOPIC_ID, 0, 1, 0, Offset(0))


def test_letters_on_their_way_are_neither_free_nor_gone():
    index = DeadLetterIndex()
    index.moves.append(move(2, 3))
    assert [each for each in range(6) if index.is_free(each)] == [0, 1, 4, 5]
    assert not index.is_taken(2)
    assert index.count(0, 6) == 6
    assert index.reaches(3)
    assert not index.reaches(4)


def test_a_move_ends_when_its_letters_are_removed_or_stay():
    index = DeadLetterIndex()
    index.moves += [move(0, 1), move(2, 3), move(4, 5)]
    index.remove(((0, 1),), 0, kept=((4, 5),))
    assert index.moves == [move(2, 3)]
    assert [each for each in range(6) if index.is_free(each)] == [4, 5]


def test_a_log_that_lost_its_end_moves_what_is_left():
    index = DeadLetterIndex()
    index.moves += [move(0, 1), move(2, 5), move(4, 5)]
    index.shorten(4)
    assert index.moves == [move(0, 1), move(2, 3)]


# --- writing --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 600), max_size=30), st.integers(200, 4_000))
def test_runs_hold_all_records_in_order_and_fit(sizes: list[int], bytes_max: int):
    records = [Record(at, 0, None, bytes(size)) for at, size in enumerate(sizes)]
    runs = split_by_size(records, bytes_max)
    assert [each for run in runs for each in run] == records
    for run in runs:
        fits = sum(len(each.value or b"") + 64 for each in run) <= bytes_max // 2
        assert fits or len(run) == 1


def test_keys_and_headers_count_for_the_size():
    plain = Record(0, 0, None, b"")
    for heavy in (
        Record(0, 0, bytes(900), b""),
        Record(0, 0, None, bytes(900)),
        Record(0, 0, None, b"", (("n" * 225, None),)),
        Record(0, 0, None, b"", (("n", bytes(890)),)),
    ):
        assert split_by_size([plain, heavy], 2_000) == [[plain], [heavy]]
    assert split_by_size([plain, plain], 2_000) == [[plain, plain]]


def test_a_batch_of_letters_is_kept_its_whole_time_from_now_on():
    records = [Record(0, 50, b"k", b"v"), Record(1, 40, None, None, (("h", b"1"),))]
    batch = encode_batch(records, now=99, producer=(5, 1, 7))
    header = header_at(batch, 0)
    assert header.max_timestamp == 99
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 7)
    assert list(decode_all(batch)) == records
    assert header_at(encode_batch(records, now=1), 0).max_timestamp == 50

"""The archive's promise: what is in the topic is in the tables once, whatever happens between."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from goqueue.spark.archive.archiver import Archived
from goqueue.spark.lake import FORMATS, LakeError, MarksMoved
from goqueue.spark.lake.table import NO_DATE
from tests.unit.spark.archive.topic_log import Runs, TopicLog, archiver, read_table


class Crash(Exception):
    """The driver ends here."""


def values(count: int) -> list[bytes]:
    return [b"%d" % each for each in range(count)]


def places(rows: list[dict]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


@pytest.fixture
def log() -> TopicLog:
    log = TopicLog()
    log.append("orders", 0, *values(5))
    log.append("orders", 1, *values(3))
    return log


EVERYTHING = [(0, each) for each in range(5)] + [(1, each) for each in range(3)]


@pytest.mark.parametrize("format", FORMATS)
def test_all_rows_arrive_with_all_columns(log: TopicLog, tmp_path: Path, format: str):
    tasks = log.batches(log.whole())
    done = archiver(log, tmp_path, format).archive(Runs(tasks))
    assert done == Archived(rows=8, dlq=0, files=1)
    rows = read_table(tmp_path, "orders", format)
    assert places(rows) == EVERYTHING
    assert rows[3]["value"] == b"3"
    assert rows[3]["key"] == b"3"
    assert {row["day"] for row in rows} == {"2026-01-31"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_is_done_again_adds_nothing(log: TopicLog, tmp_path: Path, format: str):
    """By the same job, by another one, in another division: with or without its memory."""
    whole = log.batches(log.whole())
    first = archiver(log, tmp_path, format)
    first.archive(Runs(whole))
    assert first.archive(Runs(whole)).rows == 0
    assert archiver(log, tmp_path, format).archive(Runs(*([each] for each in whole))).rows == 0
    assert places(read_table(tmp_path, "orders", format)) == EVERYTHING


def test_what_is_new_in_a_repeated_batch_arrives(log: TopicLog, tmp_path: Path):
    archiver(log, tmp_path).archive(Runs(log.batches([("orders", 0, 0, 3)])))
    done = archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))
    assert done.rows == 5
    assert places(read_table(tmp_path, "orders")) == EVERYTHING


def test_a_known_partition_costs_one_round_and_a_stranger_one_more(log: TopicLog, tmp_path: Path):
    runs = Runs(log.batches(log.whole()))
    job = archiver(log, tmp_path)
    job.archive(runs)
    assert runs.rounds == 2
    runs.rounds = 0
    job.archive(runs)
    assert runs.rounds == 1


def test_each_topic_has_its_table(log: TopicLog, tmp_path: Path):
    log.append("clicks.v2", 0, *values(2))
    archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))
    assert places(read_table(tmp_path, "orders")) == EVERYTHING
    assert places(read_table(tmp_path, "clicks.v2")) == [(0, 0), (0, 1)]


def test_a_topic_that_is_made_again_begins_anew(log: TopicLog, tmp_path: Path):
    log.ids["orders"] = "first"
    archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))
    log.ids["orders"] = "second"
    assert archiver(log, tmp_path).archive(Runs(log.batches(log.whole()))).rows == 8


def test_two_tables_of_one_name_are_refused(log: TopicLog, tmp_path: Path):
    log.append("orders_dlq", 0, b"1")
    with pytest.raises(LakeError, match="another folder"):
        archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))


# --- crashes and rivals ---------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("crash", ["before dlq", "before rows", "after rows"])
def test_a_crash_around_the_commits_loses_and_doubles_nothing(
    log: TopicLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, crash: str
):
    log.append("orders", 0, b"{}", b'{"a": 1}')  # other values are numbers: rejected
    batches = log.batches(log.whole())
    job = archiver(log, tmp_path, format, decode=True)
    job.meet(["orders"])
    crash_at(monkeypatch, job, crash)
    with pytest.raises(Crash):
        job.archive(Runs(batches))
    again = archiver(log, tmp_path, format, decode=True)
    again.archive(Runs(*([each] for each in batches)))
    rows = read_table(tmp_path, "orders", format, decoded=True)
    assert [row["record_offset"] for row in rows] == [5, 6]
    assert places(read_table(tmp_path, "orders_dlq", format)) == EVERYTHING


def crash_at(patched: pytest.MonkeyPatch, job, crash: str) -> None:
    tables = job._topics["orders"].tables
    when, kind = crash.split()
    real = tables[kind].commit

    def stopping(*args):
        if when == "after":
            real(*args)
        raise Crash

    patched.setattr(tables[kind], "commit", stopping)


@pytest.mark.parametrize("format", FORMATS)
def test_a_rival_with_the_same_batch_adds_nothing(log: TopicLog, tmp_path: Path, format: str):
    """It commits between this job's tasks and this job's commit."""
    batches = log.batches(log.whole())
    runs = Runs(batches)

    class Overtaken(Runs):
        def __call__(self, plan):
            reports = super().__call__(plan)
            if self.rounds == 2:
                archiver(log, tmp_path, format).archive(runs)
            return reports

    slow = Overtaken(batches)
    assert archiver(log, tmp_path, format).archive(slow).rows == 0
    assert slow.rounds == 3
    assert places(read_table(tmp_path, "orders", format)) == EVERYTHING


def test_without_marks_the_same_rows_come_twice(
    log: TopicLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The control: these tests can fail."""
    batches = log.batches(log.whole())
    archiver(log, tmp_path).archive(Runs(batches))
    monkeypatch.setattr("goqueue.spark.lake.parquet.ParquetTable.marks", lambda *_: {})
    monkeypatch.setattr("goqueue.spark.lake.plain_parquet.check_marks", lambda *_: None)
    archiver(log, tmp_path).archive(Runs(batches))
    assert len(read_table(tmp_path, "orders")) == 16


def test_a_job_that_never_gets_through_says_so(
    log: TopicLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_):
        raise MarksMoved("somebody else")

    monkeypatch.setattr("goqueue.spark.archive.archiver.ROUNDS_MAX", 5)
    monkeypatch.setattr("goqueue.spark.lake.parquet.ParquetTable.commit", refused)
    with pytest.raises(LakeError, match="another job"):
        archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_json_becomes_columns_which_grow(tmp_path: Path, format: str):
    log = TopicLog()
    log.append("orders", 0, b'{"id": 1, "price": 2}', None, b'{"id": 2, "at": {"city": "x"}}')
    job = archiver(log, tmp_path, format, decode=True)
    job.archive(Runs(log.batches(log.whole())))
    log.append("orders", 0, b'{"id": 3, "at": {"city": "y", "zip": 7}, "tags": ["a"]}')
    job.archive(Runs(log.batches([("orders", 0, 3, 4)])))
    rows = read_table(tmp_path, "orders", format, decoded=True)
    assert [row["id"] for row in rows] == [1, None, 2, 3]
    assert rows[3]["at"] == {"city": "y", "zip": 7}
    assert rows[3]["tags"] == ["a"]
    assert rows[1]["record_value"] is None
    assert json.loads(rows[0]["record_value"]) == {"id": 1, "price": 2}


@pytest.mark.parametrize("format", FORMATS)
def test_rows_that_do_not_fit_are_rejected_with_a_reason(tmp_path: Path, format: str):
    log = TopicLog()
    log.append("orders", 0, b'{"id": 1}', b'{"id": "one"}', b"no", b'{"id": 4}')
    done = archiver(log, tmp_path, format, decode=True).archive(Runs(log.batches(log.whole())))
    assert (done.rows, done.dlq) == (2, 2)
    rejected = read_table(tmp_path, "orders_dlq", format)
    assert [(row["offset"], row["value"]) for row in rejected] == [
        (1, b'{"id": "one"}'),
        (2, b"no"),
    ]
    assert "/id" in rejected[0]["reason"]
    assert "not JSON" in rejected[1]["reason"]


@pytest.mark.parametrize("format", FORMATS)
def test_declared_fields_have_their_types_also_when_they_are_added_later(
    tmp_path: Path, format: str
):
    log = TopicLog()
    log.append("orders", 0, b'{"price": "1.50"}', b'{"price": 2}')
    price = pa.schema([("price", pa.decimal128(10, 2))]).serialize().to_pybytes()
    batches = log.batches(log.whole())
    archiver(log, tmp_path, format, decode=True, fields=price).archive(Runs(batches))
    more = pa.schema([("price", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    log.append("orders", 0, b'{"price": 3, "at": "2026-01-31T12:00:00Z"}')
    fields = more.serialize().to_pybytes()
    again = archiver(log, tmp_path, format, decode=True, fields=fields)
    again.archive(Runs(log.batches(log.whole())))
    rows = read_table(tmp_path, "orders", format, decoded=True)
    assert [row["price"] for row in rows] == [Decimal("1.50"), Decimal("2.00"), Decimal("3.00")]
    assert rows[2]["at"] == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_first_type_of_a_field_stays(tmp_path: Path):
    log = TopicLog()
    log.append("orders", 0, b'{"id": 1}')
    log.append("orders", 1, b'{"id": "one"}')
    batches = [[each] for each in log.batches(log.whole())]
    archiver(log, tmp_path, decode=True).archive(Runs(*batches))
    assert [row["id"] for row in read_table(tmp_path, "orders", decoded=True)] == [1]
    assert len(read_table(tmp_path, "orders_dlq")) == 1


def test_fields_that_cannot_stand_together_are_taken_one_by_one(tmp_path: Path):
    log = TopicLog()
    log.append("orders", 0, b'{"at": {"x": 1}}')
    log.append("orders", 1, b'{"at": {"X": 1}}')
    batches = [[each] for each in log.batches(log.whole())]
    done = archiver(log, tmp_path, decode=True).archive(Runs(*batches))
    assert (done.rows, done.dlq) == (1, 1)


def test_values_need_not_be_kept(tmp_path: Path):
    log = TopicLog()
    log.append("orders", 0, b'{"id": 1}')
    archiver(log, tmp_path, decode=True, keep_value=False).archive(Runs(log.batches(log.whole())))
    [row] = read_table(tmp_path, "orders", decoded=True)
    assert "record_value" not in row
    with pytest.raises(LakeError, match="without keeping values"):
        archiver(log, tmp_path, decode=True).meet(["orders"])
    with pytest.raises(LakeError, match="decoded values"):
        archiver(log, tmp_path).meet(["orders"])


@pytest.mark.parametrize("format", FORMATS)
def test_times_that_are_no_dates_are_rejected(log: TopicLog, tmp_path: Path, format: str):
    log.times["orders", 0, 1] = 2**62
    log.times["orders", 0, 2] = -(2**62)
    done = archiver(log, tmp_path, format).archive(Runs(log.batches(log.whole())))
    assert (done.rows, done.dlq) == (6, 2)
    rejected = read_table(tmp_path, "orders_dlq", format)
    assert [(row["timestamp"], row["day"]) for row in rejected] == [(None, NO_DATE)] * 2
    assert str(2**62) in rejected[0]["reason"]

"""The report's page and tables, made of figures that no Spark was needed for."""

import datetime
import html.parser
from pathlib import Path

import pytest

from goqueue.spark.report.charts import bars, lines, nice_top, short_number
from goqueue.spark.report.figures import GroupFigures, ReportFigures, Row, TopicFigures
from goqueue.spark.report.job import bucket_for, write_report
from goqueue.spark.report.page import page

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_the_page_shows_every_part(tmp_path: Path):
    text = write_report(figures(), tmp_path).read_text()
    for expected in (
        "<h2>orders</h2>",
        "Throughput",
        "within 250 ms",
        "99.00%",
        "customer-0",
        "partition 1",
        "max_failures",
        "no such customer",
        "billing",
        "broken: more than 250 ms",
    ):
        assert expected in text
    assert text.count("<svg") == 6
    check_balanced(text)


def test_what_messages_say_cannot_become_markup(tmp_path: Path):
    evil = "<script>alert(1)</script>"
    text = page(figures(key=evil, error=evil, group=evil))
    assert "<script" not in text
    check_balanced(text)


def test_an_empty_topic_has_a_page():
    empty = TopicFigures("t", {"messages": 0, "bytes": 0, "timed": 0}, 1, [], [], [], [], [])
    text = page(report([empty]))
    assert "No group reads this topic." in text
    check_balanced(text)


def test_without_an_origin_the_page_says_how_to_name_one():
    topic = figures().topics[0]
    timeline = [{**row, "timed": 0} for row in topic.timeline]
    totals = {**topic.totals, "timed": 0}
    changed = TopicFigures("t", totals, 10, timeline, [], [], [], [])
    assert "--origin header:NAME" in page(report([changed], origin=None))


def test_every_topic_has_its_own_steps_of_time():
    totals: Row = {"messages": 2500, "bytes": 0, "timed": 0}
    row: Row = {"bucket": START, "messages": 2500, "timed": 0}
    topics = [
        TopicFigures(name, totals, seconds, [row], [], [], [], [])
        for name, seconds in (("busy", 1), ("slow", 5))
    ]
    busy, _, slow = page(report(topics)).partition("<h2>slow</h2>")
    assert "in steps of 1 s" in busy
    assert ">2.5k/s</text>" in busy
    assert "in steps of 5 s" in slow
    assert ">500/s</text>" in slow


def test_tables_are_written_beside_the_page(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the spark extra")
    write_report(figures(), tmp_path)
    keys = parquet.read_table(tmp_path / "hot_keys.parquet").to_pylist()
    assert keys[0] == {"topic": "orders", "key": "customer-0", "messages": 500, "share": 0.25}
    assert parquet.read_table(tmp_path / "lag.parquet").to_pylist()[0]["lag"] == 1200


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 1), (100, 1), (130, 5), (7200, 60), (10**10, 604_800)]
)
def test_steps_of_time_are_not_too_many(seconds: int, expected: int):
    last = START + datetime.timedelta(seconds=seconds)
    assert bucket_for({"first": START, "last": last}) == expected


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (7, 10), (11, 20), (240, 250), (0.03, 0.05)]
)
def test_an_axis_ends_at_a_round_number(value: float, top: float):
    assert nice_top(value) == pytest.approx(top)


def test_numbers_are_short():
    assert [short_number(each) for each in (0, 12, 1234, 1.5e6, 2e9)] == [
        "0",
        "12",
        "1.23k",
        "1.5M",
        "2G",
    ]


def test_a_single_point_is_drawn_and_nothing_is_nothing():
    assert "<circle" in lines([("a", [(START, 1.0)])], "", filled=True)
    assert lines([("a", [])], "", filled=True) == ""
    assert bars([]) == ""


def figures(
    key: str = "customer-0", error: str = "no such customer", group: str = "billing"
) -> ReportFigures:
    timeline = [
        {
            "bucket": START + datetime.timedelta(seconds=10 * number),
            "messages": 1000 + 100 * (number % 5),
            "bytes": 100_000,
            "latency_p50_ms": 20.0 + number % 3,
            "latency_p95_ms": 80.0 + number % 7,
            "latency_p99_ms": 140.0 + 10 * (number % 4),
            "latency_max_ms": 300.0,
            "timed": 1000,
            "late": 10,
        }
        for number in range(30)
    ]
    totals = {
        **timeline[0],
        "messages": 36_000,
        "first": START,
        "last": START + datetime.timedelta(seconds=300),
    }
    letters = [
        {"reason": "max_failures", "group": group, "error": error, "messages": 31},
        {"reason": "rejected", "group": group, "error": "malformed", "messages": 12},
    ]
    keys = [
        {"key": key, "messages": 500, "share": 0.25},
        {"key": "customer-1", "messages": 300, "share": 0.15},
    ]
    partitions: list[Row] = [
        {"partition": each, "messages": 12_000, "bytes": 1 << 20} for each in range(3)
    ]
    groups = [
        GroupFigures(group, "stable", 1200, 4_000.0, ((0, 1200), (1, 0))),
        GroupFigures("audit", "stable", 0, None, ((0, 0),)),
    ]
    topic = TopicFigures("orders", totals, 10, timeline, partitions, keys, letters, groups)
    return report([topic])


def report(topics: list[TopicFigures], origin: str | None = "header:created-at") -> ReportFigures:
    return ReportFigures(
        server="http://127.0.0.1:8080",
        made_at=START,
        period="from the beginning to now",
        sla_ms=250.0,
        origin=origin,
        topics=topics,
    )


class _Balance(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_balanced(text: str) -> None:
    parser = _Balance()
    parser.feed(text)
    assert parser.open == []

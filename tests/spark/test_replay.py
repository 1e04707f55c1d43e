"""Archives and topics replayed, and read back with their keys, headers, order and times."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client.kafka import LATEST, KafkaClient
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.columns import COLUMN_TYPES, Decoder
from goqueue.spark.lake import FORMATS
from goqueue.spark.replay import job as module
from goqueue.spark.replay.job import Replayed, replay
from goqueue.spark.replay.options import Choice, ReplayOptions
from goqueue.spark.replay.plans import ReplayRefused
from goqueue.spark.runtime.job_runner import Runner
from goqueue.spark.runtime.stop import Stop
from tests.spark.conftest import START_MS, Fill, MakeTopic
from tests.unit.spark.archive.topic_log import NOON_US, Runs, TopicLog, archiver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Replay = Callable[..., Replayed]


class Crash(Exception):
    """The driver ends here."""


@pytest.fixture
def run(spark: "SparkSession", broker: str, tmp_path: Path) -> Replay:
    def run(**options: Any) -> Replayed:
        state = str(tmp_path / "replays")
        return replay(spark, ReplayOptions(bootstrap=broker, state=state, **options))

    return run


@pytest.fixture
def to(names: Iterator[str]) -> str:
    """A topic that is not there yet."""
    return next(names)


@pytest.fixture
def read(client: KafkaClient) -> Callable[[str, int], list[dict]]:
    """`read(topic, partition)`: all committed records."""

    def read(topic: str, partition: int) -> list[dict]:
        where = TopicPartition(TopicName(topic), partition)
        end = client.list_offsets({where: LATEST})[where].offset
        decoder = Decoder(topic, partition, tuple(COLUMN_TYPES))
        rows: list[dict] = []
        for fetched in client.fetch_range(topic, partition, 0, end):
            aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted]
            found = decoder.decode(fetched.records, start=0, end=end, aborted=aborted)
            rows += found.batch.to_pylist()
        return rows

    return read


def values(rows: list[dict]) -> list[str]:
    return [row["value"].decode() for row in rows]


def numbers(start: int, end: int) -> list[str]:
    return [str(each) for each in range(start, end)]


def archived(target: Path, format: str = "parquet", **settings: Any) -> TopicLog:
    """A topic that exists nowhere but in its archive."""
    log = TopicLog()
    log.append("orders", 0, *(b'{"id": %d}' % each for each in range(20)))
    log.append("orders", 2, *(b'{"id": %d}' % each for each in range(100, 105)))
    log.times = {("orders", 0, each): NOON_US + each * 1_000_000 for each in range(20)}
    archiver(log, target, format, **settings).archive(Runs(log.batches(log.whole())))
    return log


@pytest.mark.parametrize("format", FORMATS)
def test_what_the_topic_has_lost_comes_back_from_the_archive(
    run: Replay, read, to: str, tmp_path: Path, format: str
):
    archived(tmp_path, format)
    done = run(archive=str(tmp_path / "orders"), to=to, window=7)
    assert (done.messages, done.windows) == (25, 3)
    first, third = read(to, 0), read(to, 2)
    assert values(first) == [f'{{"id": {n}}}' for n in range(20)]
    assert [row["key"] for row in first] == [b"%d" % n for n in range(20)]
    micros = [row["timestamp"].timestamp() * 1_000_000 for row in first]
    assert micros == [NOON_US + n * 1_000_000 for n in range(20)]
    assert len(third) == 5
    assert read(to, 1) == []


def test_the_same_replay_is_done_once_and_another_one_by_its_name(
    run: Replay, read, to: str, tmp_path: Path
):
    archived(tmp_path)
    run(archive=str(tmp_path / "orders"), to=to)
    assert run(archive=str(tmp_path / "orders"), to=to).was_finished
    assert len(read(to, 0)) == 20
    run(archive=str(tmp_path / "orders"), to=to, name=f"again-{to}")
    assert len(read(to, 0)) == 40


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_replay_that_was_cut_off_goes_on_and_takes_in_nothing_new(
    run: Replay, read, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
):
    """Cut off before or after the decision about its second window."""
    log = archived(tmp_path)
    real, calls = module._write, 0

    def cut_off(*given: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2 and when == "before":
            raise Crash
        count = real(*given)
        if calls == 2:
            raise Crash
        return count

    with monkeypatch.context() as patched:
        patched.setattr(module, "_write", cut_off)
        with pytest.raises(Crash):
            run(archive=str(tmp_path / "orders"), to=to, window=7)
    log.append("orders", 0, b"new")
    archiver(log, tmp_path).archive(Runs(log.batches(log.whole())))
    run(archive=str(tmp_path / "orders"), to=to, window=7)
    assert values(read(to, 0)) == [f'{{"id": {n}}}' for n in range(20)]
    assert len(read(to, 2)) == 5


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(from_ms=NOON_US // 1000 + 5_000, until_ms=NOON_US // 1000 + 8_000), [5, 6, 7]),
        (Choice(from_offset=17), [17, 18, 19]),
        (Choice(until_offset=2, partitions=(0,)), [0, 1]),
        (Choice(where="id % 10 = 3"), [3, 13]),
    ],
    ids=["times", "offsets", "partitions", "sql"],
)
def test_a_choice_is_replayed(
    run: Replay, read, to: str, tmp_path: Path, choice: Choice, expected: list[int]
):
    archived(tmp_path, decode=True)
    run(archive=str(tmp_path / "orders"), to=to, choice=choice)
    assert values(read(to, 0)) == [f'{{"id": {n}}}' for n in expected]


def test_a_range_of_a_topic_keeps_order_headers_and_times(
    run: Replay, read, fill: Fill, make_topic: MakeTopic, topic: str
):
    fill(topic, 0, numbers(0, 30), headers=(("trace", b"x"),))
    fill(topic, 1, numbers(0, 10))
    to = make_topic(3)
    choice = Choice(from_ms=START_MS + 5, until_ms=START_MS + 25)
    done = run(topic=topic, to=to, choice=choice, window=4)
    assert done.messages == 25
    rows = read(to, 0)
    assert values(rows) == numbers(5, 25)
    assert rows[0]["headers"] == [{"key": "trace", "value": b"x"}]
    assert rows[0]["timestamp"].timestamp() * 1000 == START_MS + 5
    assert values(read(to, 1)) == numbers(5, 10)


def test_keys_decide_where_messages_go_if_asked(
    run: Replay, read, fill: Fill, make_topic: MakeTopic, topic: str
):
    fill(topic, 1, [*numbers(0, 5), *numbers(0, 5)])
    to = make_topic(4)
    run(topic=topic, to=to, partitions="key")
    found = [values(read(to, partition)) for partition in range(4)]
    assert sorted(chain.from_iterable(found)) == sorted([*numbers(0, 5), *numbers(0, 5)])
    for part in found:
        assert part[len(part) // 2 :] == part[: len(part) // 2]


def test_a_replay_runs_as_a_job_of_the_command_line(
    spark: "SparkSession", broker: str, read, to: str, tmp_path: Path
):
    """In a thread of its own, where nothing was read from a topic before."""
    archived(tmp_path)
    options = ReplayOptions(
        bootstrap=broker, state=str(tmp_path / "r"), archive=str(tmp_path / "orders"), to=to
    )
    runner = Runner(spark, Stop(), lambda _: None, stop_seconds=1)
    assert runner.job("replay", lambda: replay(spark, options)).messages == 25
    assert len(read(to, 0)) == 20


# --- refusals -------------------------------------------------------------------------------------


def test_messages_that_the_topic_would_delete_at_once_are_refused(
    run: Replay, read, fill: Fill, client: KafkaClient, names: Iterator[str], topic: str
):
    fill(topic, 0, numbers(0, 3))
    to = next(names)
    client.create_topic(to, partitions=2, settings={"retention.ms": "1000"})
    with pytest.raises(ReplayRefused, match="retention"):
        run(topic=topic, to=to)
    run(topic=topic, to=to, times="now", name=f"now-{to}")
    assert values(read(to, 0)) == numbers(0, 3)


def test_too_few_partitions_are_refused(run: Replay, make_topic: MakeTopic, tmp_path: Path):
    archived(tmp_path)
    with pytest.raises(ReplayRefused, match="2 partitions and 3"):
        run(archive=str(tmp_path / "orders"), to=make_topic(2))


def test_an_archive_without_values_cannot_be_replayed(run: Replay, to: str, tmp_path: Path):
    archived(tmp_path, decode=True, keep_value=False)
    with pytest.raises(ReplayRefused, match="without keeping values"):
        run(archive=str(tmp_path / "orders"), to=to)


def test_wrong_sql_leaves_no_plan_behind(run: Replay, to: str, tmp_path: Path):
    from pyspark.errors import AnalysisException

    archived(tmp_path)
    with pytest.raises(AnalysisException, match="nosuch"):
        run(archive=str(tmp_path / "orders"), to=to, choice=Choice(where="nosuch = 1"), name="a")
    assert not (tmp_path / "replays").exists()

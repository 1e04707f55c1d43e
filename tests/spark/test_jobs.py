"""Reports, triage and compaction through a running broker."""

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, Message
from goqueue.client.kafka import KafkaClient
from goqueue.spark.compaction.job import compact
from goqueue.spark.dlq import job
from goqueue.spark.report.job import make_report
from goqueue.spark.report.options import ReportOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000


@pytest.fixture
def http(client: KafkaClient) -> Iterator[Client]:
    with Client(client.http_url()) as http:
        yield http


def test_a_report_counts_every_message(
    spark: "SparkSession", http: Client, broker: str, names: Iterator[str]
):
    topic = next(names)
    http.create_topic(topic, partitions=2)
    messages = [
        Message(
            json.dumps({"number": number}),
            key=f"k{number % 3}" if number else None,
            headers={"began": str(START_MS + number * 100 - number)},
            timestamp=START_MS + number * 100,
            partition=number % 2,
        )
        for number in range(200)
    ]
    http.publish(topic, messages)
    http.delete_messages(topic, 0, 10)

    options = ReportOptions(
        topics=(topic,), servers=broker, origin="header:began", sla_ms=100, keys=5
    )
    now = datetime.datetime.now(datetime.UTC)
    figures = make_report(spark, http, options, now=now)

    (found,) = figures.topics
    assert found.totals["messages"] == 190
    assert found.totals["timed"] == 190
    assert found.totals["latency_max_ms"] == 199
    assert found.totals["late"] == 99
    assert sum(row["messages"] for row in found.timeline) == 190  # type: ignore[misc]
    assert [row["messages"] for row in found.partitions] == [90, 100]
    left = [each for each in messages if each.partition or (each.timestamp or 0) >= START_MS + 2000]
    by_key = Counter(each.key for each in left if each.key is not None)
    assert {row["key"]: row["messages"] for row in found.hot_keys} == dict(by_key)
    assert found.dead_letters == []

    for since_ms, expected in ((START_MS + 19_900, 1), (START_MS + 20_000, 0)):
        options = ReportOptions(topics=(topic,), servers=broker, from_ms=since_ms)
        (found,) = make_report(spark, http, options, now=now).topics
        assert found.totals["messages"] == expected, "a partition may be quiet, or all of them"


def test_dead_letters_are_sorted_and_driven_back_by_a_condition(
    spark: "SparkSession", http: Client, broker: str, names: Iterator[str]
):
    topic = next(names)
    http.create_topic(topic, partitions=1)
    assert job.dead_letter_table(spark, http, topic, broker) is None
    http.publish(topic, [Message(str(number), headers={"n": str(number)}) for number in range(10)])
    for message in http.receive(topic, "workers", max_messages=10):
        even = int(message.value or b"") % 2 == 0
        http.reject(message, reason="even" if even else "odd")

    letters = job.dead_letter_table(spark, http, topic, broker)
    assert letters is not None
    counted = {row["error"]: row["letters"] for row in job.triage(letters).collect()}
    assert counted == {"even": 5, "odd": 5}

    picked = job.pick(letters, "error = 'odd' and headers['n'] >= '5' and reason = 'rejected'")
    done = job.redrive(picked, http, topic)
    assert (done.picked, done.moved) == (3, 3)
    again = job.redrive(picked, http, topic)
    assert again.moved == 0, "each goes back once"

    delivered = http.receive(topic, "workers", max_messages=10)
    back = sorted(message.value or b"" for message in delivered)
    assert back == [b"5", b"7", b"9"]
    rest = job.dead_letter_table(spark, http, topic, broker)
    assert rest is not None
    assert rest.count() == 7


def test_compaction_by_spark_keeps_the_last_value_of_each_key(
    spark: "SparkSession", http: Client, broker: str, names: Iterator[str]
):
    topic = next(names)
    http.create_topic(topic, partitions=2, settings={"cleanup.policy": "compact"})
    for number in range(40):
        message = Message(f"{number}", key=f"k{number % 7}", partition=number % 2)
        http.publish(topic, [message])
    before = list(http.read(topic))

    planned = compact(spark, http, topic, broker, dry_run=True)
    assert list(http.read(topic)) == before
    done = compact(spark, http, topic, broker)

    assert [each.superseded for each in done] == [each.superseded for each in planned] == [13, 13]
    after = list(http.read(topic))
    last = {(each.partition, each.key): each.offset for each in before}
    assert after == [each for each in before if last[each.partition, each.key] == each.offset]
    assert compact(spark, http, topic, broker) == [], "there is nothing left to do"

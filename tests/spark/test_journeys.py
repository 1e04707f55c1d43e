"""A report of journeys, from the history of a running broker."""

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, Message
from goqueue.client.kafka import KafkaClient
from goqueue.spark.journeys.job import make_journeys
from goqueue.spark.journeys.options import JourneyOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def http(client: KafkaClient) -> Iterator[Client]:
    with Client(client.http_url()) as http:
        yield http


def test_journeys_of_a_topic_are_reported(
    spark: "SparkSession", http: Client, names: Iterator[str], eventually: Callable[..., None]
):
    topic, began = next(names), int(time.time() * 1000) - 1_000
    http.create_topic(topic, partitions=2)
    http.publish(topic, [Message(json.dumps(n), partition=n % 2) for n in range(40)])
    taken = http.receive(topic, "workers", max_messages=40)
    http.ack(*taken[:-1])
    http.nack(taken[-1], reason="no")

    def is_told() -> bool:
        now = int(time.time() * 1000)
        page = http.trace_events(start=began, end=now, topic=topic)
        return any(each.event == "consume.nacked" for each in page.events)

    eventually(is_told)
    options = JourneyOptions(topics=(topic,), from_ms=began, slowest=2)
    figures = make_journeys(spark, {"base_url": http.base_url}, options)
    counts = {(row["step"], row["group"]): row["messages"] for row in figures.latencies}
    assert counts == {
        ("publish", ""): 40,
        ("first_delivery", "workers"): 40,
        ("ack", "workers"): 39,
        ("end_to_end", "workers"): 39,
    }
    assert all(0 <= row["p50_ms"] <= row["p99_ms"] <= row["max_ms"] for row in figures.latencies)
    steps = {(row["group"], row["event"]): row["messages"] for row in figures.steps}
    assert steps["workers", "consume.nacked"] == 1
    assert steps["workers", "consume.acked"] == 39
    assert steps["", "publish.received"] == 40
    assert len(figures.slowest) == 2
    assert figures.slowest[0]["took_ms"] >= figures.slowest[1]["took_ms"]

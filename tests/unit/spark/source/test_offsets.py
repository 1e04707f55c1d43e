"""Offsets as Spark keeps and reports them, and what the listener makes of them."""

import json
from uuid import UUID

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.runtime.listener import group_name, offsets_to_publish
from goqueue.spark.source.offsets import (
    broker_of,
    changed_topics,
    places_of,
    stored_offsets,
    topic_ids_of,
    with_broker,
    without_topics,
)

PLACES = {
    TopicPartition(TopicName("orders"), 10): 4,
    TopicPartition(TopicName("orders"), 2): 7,
    TopicPartition(TopicName("a"), 0): 0,
}


def test_offsets_have_kafkas_shape_and_come_back():
    assert stored_offsets(PLACES) == {"a": {"0": 0}, "orders": {"2": 7, "10": 4}}
    assert json.dumps(stored_offsets(PLACES)) == json.dumps(
        stored_offsets(dict(reversed(PLACES.items())))
    )
    assert places_of(json.loads(json.dumps(stored_offsets(PLACES)))) == PLACES


def test_a_broker_can_travel_with_them_and_is_no_topic():
    marked = with_broker(stored_offsets(PLACES), "host:9092")
    assert broker_of(marked) == "host:9092"
    assert places_of(marked) == PLACES
    assert broker_of(stored_offsets(PLACES)) is None


def test_topic_ids_travel_with_them_and_are_no_topics():
    ids = {"orders": UUID(int=7), "others": UUID(int=8)}
    stored = json.loads(json.dumps(stored_offsets(PLACES, ids)))
    assert topic_ids_of(stored) == {"orders": UUID(int=7)}
    assert places_of(stored) == PLACES
    assert broker_of(stored) is None
    assert broker_of(with_broker(stored, "host:9092")) == "host:9092"


def test_a_topic_is_another_one_only_if_both_ids_are_known():
    before = {"orders": UUID(int=7), "gone": UUID(int=1)}
    assert changed_topics(before, {"orders": UUID(int=7), "new": UUID(int=2)}) == set()
    assert changed_topics(before, {"orders": UUID(int=9)}) == {"orders"}
    assert without_topics(PLACES, {"orders"}) == {TopicPartition(TopicName("a"), 0): 0}


def test_only_streams_of_ours_that_name_their_broker_are_published():
    marked = json.dumps(with_broker(stored_offsets(PLACES), "host:9092"))
    plain = json.dumps(stored_offsets(PLACES))
    assert offsets_to_publish([(marked, plain)]) == [("host:9092", PLACES)]
    for others in [(plain, plain), (None, None), ("7", "7"), (marked, None), ("{nonsense", plain)]:
        assert offsets_to_publish([others]) == []


def test_a_group_is_named_for_its_query():
    assert group_name("billing", "id") == "spark-billing"
    assert group_name(None, "id") == "spark-id"

"""Topics and settings: what is asked, of whom, and how refusals are told."""

from collections.abc import Mapping
from types import SimpleNamespace as Answer
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.errors import NoAnswer
from goqueue.client.kafka import KafkaClient, KafkaRefused
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey
from tests.unit.client.kafka.fake_cluster import FIRST, SECOND, FakeCluster

PLACES = [TopicPartition(TopicName("t"), index) for index in range(3)]
OK = ErrorCode.none


def client_of(cluster: FakeCluster) -> KafkaClient:
    client = KafkaClient("nobody:1", timeout_s=0.001)
    client._cluster = cluster  # type: ignore[assignment]
    return client


def result(code: ErrorCode = OK, **fields: Any) -> Answer:
    return Answer(error_code=code, error_message="because", **fields)


def test_a_topic_is_created_with_what_was_given():
    cluster = FakeCluster(Answer(topics=(result(),)))
    client_of(cluster).create_topic("t", partitions=3, settings={"retention.ms": "5"})
    (topic,) = cluster.requests[0].topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 3, -1)
    assert [(each.name, each.value) for each in topic.configs] == [("retention.ms", "5")]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.create_topic("t"),
        lambda client: client.delete_topic("t"),
        lambda client: client.add_partitions("t", total=4),
    ],
)
def test_a_change_whose_answer_was_lost_is_not_asked_for_again(call: Any):
    cluster = FakeCluster(NoAnswer("lost"))
    with pytest.raises(NoAnswer):
        call(client_of(cluster))
    assert len(cluster.asked) == 1


def test_a_refusal_has_the_brokers_words():
    cluster = FakeCluster(Answer(topics=(result(ErrorCode.topic_already_exists),)))
    with pytest.raises(KafkaRefused, match=r"topic 't': topic_already_exists.*because"):
        client_of(cluster).create_topic("t")


def test_who_leads_what_is_asked_again_after_topics_changed():
    cluster = FakeCluster(Answer(responses=(result(),)), Answer(results=(result(),)))
    client_of(cluster).delete_topic("t")
    assert cluster.forgotten == 1
    client_of(cluster).add_partitions("t", total=4)
    assert cluster.forgotten == 2
    deletion, addition = cluster.requests
    assert list(deletion.topic_names) == ["t"]
    assert [(each.name, each.count) for each in addition.topics] == [("t", 4)]


def test_records_are_deleted_by_the_leaders_of_their_partitions():
    deleted = Answer(topics=(Answer(partitions=(result(partition_index=0),)),))
    cluster = FakeCluster(deleted, deleted)
    client_of(cluster).delete_records({PLACES[0]: 5, PLACES[1]: 6, PLACES[2]: 7})
    assert [node for node, _, _ in cluster.asked] == [FIRST, SECOND]
    first, second = (request.topics[0].partitions for request in cluster.requests)
    assert [(each.partition_index, each.offset) for each in first] == [(0, 5)]
    assert [(each.partition_index, each.offset) for each in second] == [(1, 6), (2, 7)]


def test_one_partition_that_is_refused_fails_the_deletion():
    refused = result(ErrorCode.offset_out_of_range, partition_index=0)
    cluster = FakeCluster(Answer(topics=(Answer(partitions=(refused,)),)))
    with pytest.raises(KafkaRefused, match="offset_out_of_range"):
        client_of(cluster).delete_records({PLACES[0]: 5})


def sizes(*found: tuple[int, int], code: ErrorCode = OK) -> Answer:
    partitions = tuple(Answer(partition_index=at, partition_size=size) for at, size in found)
    directory = Answer(topics=(Answer(name="t", partitions=partitions),))
    return Answer(error_code=code, results=(directory,))


def test_sizes_are_those_that_the_leaders_say():
    cluster = FakeCluster(sizes((0, 10)), sizes((1, 20), (2, 30)))
    assert client_of(cluster).log_sizes(PLACES) == dict(zip(PLACES, (10, 20, 30), strict=True))
    with pytest.raises(KafkaRefused, match="sizes of logs"):
        client_of(FakeCluster(sizes(code=ErrorCode.invalid_request))).log_sizes(PLACES[:1])


def configs(settings: Mapping[str, str | None]) -> Answer:
    entries = tuple(Answer(name=name, value=value) for name, value in settings.items())
    return Answer(results=(result(configs=entries),))


@pytest.mark.parametrize(("kind", "number"), [("topic", 2), ("broker", 4), ("group", 32)])
def test_settings_are_asked_for_by_kind_and_name(kind: Any, number: int):
    cluster = FakeCluster(configs({"a": "1", "b": None}))
    assert client_of(cluster).describe_configs(kind, "x") == {"a": "1", "b": None}
    (resource,) = cluster.requests[0].resources
    assert (resource.resource_type, resource.resource_name) == (number, "x")
    assert resource.configuration_keys is None


def test_settings_that_are_refused_are_no_settings():
    refused = Answer(results=(result(ErrorCode.topic_authorization_failed, configs=()),))
    with pytest.raises(KafkaRefused, match="settings of topic 'x'"):
        client_of(FakeCluster(refused)).describe_configs("topic", "x")


def test_the_http_address_is_asked_of_a_broker_about_itself():
    cluster = FakeCluster(configs({"goqueue.http.address": "http://h:8080"}))
    assert client_of(cluster).http_url() == "http://h:8080"
    node, api_key, request = cluster.asked[0]
    (resource,) = request.resources
    assert (node, api_key, resource.resource_name) == (FIRST, ApiKey.DESCRIBE_CONFIGS, "7")
    assert list(resource.configuration_keys) == ["goqueue.http.address"]


def test_all_brokers_that_answer_tell_their_http_addresses():
    cluster = FakeCluster(
        configs({"goqueue.http.address": "http://h:8080"}),
        KafkaRefused("it stops", ErrorCode.broker_not_available),
        configs({"goqueue.http.address": "http://j:8080"}),
    )
    vars(cluster)["nodes"] = lambda _deadline: {7: FIRST, 8: SECOND, 9: FIRST}
    assert client_of(cluster).http_url() == "http://h:8080,http://j:8080"


@pytest.mark.parametrize("settings", [{}, {"goqueue.http.address": None}])
def test_a_broker_of_another_make_has_no_http_address(settings: dict[str, str | None]):
    with pytest.raises(KafkaRefused, match="is it a GoQueue server"):
        client_of(FakeCluster(configs(settings))).http_url()

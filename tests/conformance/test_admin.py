"""Topics and their settings through the clients' admin interfaces."""

from collections.abc import Iterator
from typing import Any

import aiokafka.admin
import kafka
import kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from goqueue.client import Client
from tests.conformance.clients import Confluent, Message
from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

WAIT_S = 10.0


def error_of(future: Any) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        future.result(WAIT_S)
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(WAIT_S)
    return found


# --- create and delete ------------------------------------------------------------------------


def test_a_created_topic_is_listed_with_its_partitions(admin: AdminClient, make_topic: MakeTopic):
    topic = make_topic(partitions=7)
    metadata = admin.list_topics(topic, timeout=WAIT_S)
    assert sorted(metadata.topics[topic].partitions) == list(range(7))
    assert {p.leader for p in metadata.topics[topic].partitions.values()} == {1}
    assert topic in admin.list_topics(timeout=WAIT_S).topics


def test_a_topic_may_leave_counts_to_the_server(admin: AdminClient, names: Iterator[str]):
    name = next(names)
    admin.create_topics([NewTopic(name)])[name].result(WAIT_S)
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3


def test_validate_only_creates_nothing(admin: AdminClient, names: Iterator[str]):
    name = next(names)
    admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)[name].result(WAIT_S)
    assert name not in admin.list_topics(timeout=WAIT_S).topics
    bad = NewTopic(name, 2, 1, config={"retention.ms": "soon"})
    error = error_of(admin.create_topics([bad], validate_only=True)[name])
    assert error.code() == KafkaError.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "code"),
    [
        ("no spaces", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("..", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("n" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("too-many-replicas", 1, 3, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("too-many-partitions", 20_000, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("bad-setting", 1, 1, {"no.such.thing": "1"}, KafkaError.INVALID_CONFIG),
        ("__mine", 1, 1, {}, KafkaError.POLICY_VIOLATION),
    ],
)
def test_what_cannot_be_created_is_refused_with_a_reason(
    admin: AdminClient, name: str, partitions: int, replicas: int, config: Any, code: int
):
    topic = NewTopic(name, partitions, replicas, config=config)
    error = error_of(admin.create_topics([topic])[name])
    assert error.code() == code
    assert error.str()


def test_an_existing_topic_is_not_created_again(admin: AdminClient, topic: str):
    error = error_of(admin.create_topics([NewTopic(topic, 1, 1)])[topic])
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_a_deleted_topic_is_gone_and_its_name_is_free(
    admin: AdminClient, server: Server, topic: str
):
    Confluent().write(server.address, topic, [Message(b"k", b"old")])
    admin.delete_topics([topic])[topic].result(WAIT_S)
    assert topic not in admin.list_topics(timeout=WAIT_S).topics
    error = error_of(admin.delete_topics([topic])[topic])
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)
    Confluent().write(server.address, topic, [Message(b"k", b"new")])
    (read,) = Confluent().read(server.address, topic, 1)
    assert read.message.value == b"new"
    assert read.offset == 0


# --- partitions -------------------------------------------------------------------------------


def test_partitions_are_added_and_never_taken_away(
    admin: AdminClient, server: Server, make_topic: MakeTopic
):
    topic = make_topic(partitions=2)
    admin.create_partitions([NewPartitions(topic, 5)], validate_only=True)[topic].result(WAIT_S)
    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 2
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 5
    error = error_of(admin.create_partitions([NewPartitions(topic, 3)])[topic])
    assert error.code() == KafkaError.INVALID_PARTITIONS
    Confluent().write(server.address, topic, [Message(None, b"new place")], partition=4)
    (read,) = Confluent().read(server.address, topic, 1, partition=4)
    assert read.message.value == b"new place"


# --- settings ---------------------------------------------------------------------------------


def test_settings_tell_where_they_come_from(admin: AdminClient, make_topic: MakeTopic):
    topic = make_topic(retention_ms=1234)
    entries = described(admin, ResourceType.TOPIC, topic)
    assert entries["retention.ms"].value == "1234"
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not entries["retention.ms"].is_default
    assert entries["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert entries["cleanup.policy"].value == "delete"
    assert "log.retention.ms" in entries["retention.ms"].synonyms


def test_settings_are_set_and_deleted_one_by_one(admin: AdminClient, make_topic: MakeTopic):
    topic = make_topic(retention_ms=1234)
    alter(admin, topic, ("retention.bytes", "99", AlterConfigOpType.SET))
    alter(admin, topic, ("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    entries = described(admin, ResourceType.TOPIC, topic)
    assert entries["retention.ms"].value == "1234"
    assert entries["retention.bytes"].value == "99"
    assert entries["cleanup.policy"].value == "compact,delete"
    alter(admin, topic, ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    alter(admin, topic, ("retention.ms", None, AlterConfigOpType.DELETE))
    entries = described(admin, ResourceType.TOPIC, topic)
    assert entries["cleanup.policy"].value == "compact"
    assert entries["retention.ms"].value == "604800000"


def alter(admin: AdminClient, topic: str, *changes: Any) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=operation)
        for name, value, operation in changes
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def test_settings_of_our_own_are_settings_like_any_other(admin: AdminClient, topic: str):
    alter(
        admin,
        topic,
        ("goqueue.ttl.ms", "60000", AlterConfigOpType.SET),
        ("goqueue.expired", "drop", AlterConfigOpType.SET),
    )
    found = described(admin, ResourceType.TOPIC, topic)
    assert (found["goqueue.ttl.ms"].value, found["goqueue.expired"].value) == ("60000", "drop")


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_the_old_way_of_altering_replaces_all_settings(admin: AdminClient, make_topic: MakeTopic):
    topic = make_topic(retention_ms=1234)
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.bytes": "99"})
    admin.alter_configs([resource])[resource].result(WAIT_S)
    entries = described(admin, ResourceType.TOPIC, topic)
    assert entries["retention.bytes"].value == "99"
    assert entries["retention.ms"].value == "604800000"


def test_a_wrong_value_changes_nothing(admin: AdminClient, topic: str):
    wrong = ConfigEntry("retention.ms", "-5", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wrong])
    error = error_of(admin.incremental_alter_configs([resource])[resource])
    assert error.code() == KafkaError.INVALID_CONFIG
    assert "retention.ms" in error.str()
    assert described(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"


def test_the_server_shows_its_settings_and_keeps_them(admin: AdminClient):
    entries = described(admin, ResourceType.BROKER, "1")
    assert entries["num.partitions"].value == "3"
    assert entries["num.partitions"].is_read_only
    assert entries["log.retention.ms"].value == "604800000"
    assert entries["auto.create.topics.enable"].value == "true"
    change = ConfigEntry("num.partitions", "9", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    error = error_of(admin.incremental_alter_configs([resource])[resource])
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "start" in error.str()


def test_the_server_tells_where_its_http_listener_is(admin: AdminClient):
    url = described(admin, ResourceType.BROKER, "1")["goqueue.http.address"].value
    assert url is not None
    with Client(url) as client:
        assert client.health().is_ready


def test_settings_of_what_there_is_not(admin: AdminClient):
    for kind, name, code in (
        (ResourceType.TOPIC, "no-such-topic", KafkaError.UNKNOWN_TOPIC_OR_PART),
        (ResourceType.TOPIC, "no good name", KafkaError.TOPIC_EXCEPTION),
    ):
        resource = ConfigResource(kind, name)
        assert error_of(admin.describe_configs([resource])[resource]).code() == code


# --- records and cluster ----------------------------------------------------------------------


def test_deleted_records_are_gone(admin: AdminClient, server: Server, topic: str):
    Confluent().write(server.address, topic, [Message(None, b"%d" % n) for n in range(10)])
    place = TopicPartition(topic, 0, 4)
    assert admin.delete_records([place])[place].result(WAIT_S).low_watermark == 4
    read = Confluent().read(server.address, topic, 6, offset=4)
    assert [each.message.value for each in read] == [b"%d" % n for n in range(4, 10)]
    error = error_of(next(iter(admin.delete_records([TopicPartition(topic, 0, 11)]).values())))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE
    everything = TopicPartition(topic, 0, -1)
    assert admin.delete_records([everything])[everything].result(WAIT_S).low_watermark == 10


def test_the_cluster_is_this_node(admin: AdminClient, server: Server):
    cluster = admin.describe_cluster().result(WAIT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [server.address]
    assert cluster.controller.id == 1
    assert cluster.cluster_id == admin.list_topics(timeout=WAIT_S).cluster_id


def test_there_are_no_groups_to_list(admin: AdminClient):
    groups = admin.list_consumer_groups().result(WAIT_S)
    assert groups.errors == []


# --- the other clients' admin interfaces ------------------------------------------------------


def test_kafka_python_admin(server: Server, names: Iterator[str]):
    name = next(names)
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.address)
    try:
        admin.create_topics([kafka.admin.NewTopic(name, 2, 1)])
        assert name in admin.list_topics()
        admin.create_partitions({name: kafka.admin.NewPartitions(4)})
        (topic,) = admin.describe_topics([name])
        assert len(topic["partitions"]) == 4
        resource = kafka.admin.ConfigResource("topic", name, {"retention.ms": "777"})
        admin.alter_configs([resource])
        assert "777" in str(admin.describe_configs([kafka.admin.ConfigResource("topic", name)]))
        assert name in str(admin.describe_log_dirs())
        admin.delete_topics([name])
        assert name not in admin.list_topics()
    finally:
        admin.close()


async def test_aiokafka_admin(server: Server, names: Iterator[str]):
    name = next(names)
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=server.address)
    await admin.start()
    try:
        await admin.create_topics([aiokafka.admin.NewTopic(name, 2, 1)])
        await admin.create_partitions({name: aiokafka.admin.NewPartitions(4)})
        (topic,) = await admin.describe_topics([name])
        assert len(topic["partitions"]) == 4
        kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
        await admin.alter_configs(
            [aiokafka.admin.config_resource.ConfigResource(kind, name, {"retention.ms": "777"})]
        )
        found = await admin.describe_configs(
            [aiokafka.admin.config_resource.ConfigResource(kind, name)]
        )
        assert "777" in str(found)
        await admin.delete_topics([name])
        assert name not in await admin.list_topics()
    finally:
        await admin.close()

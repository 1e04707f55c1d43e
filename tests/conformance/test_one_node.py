"""What tools ask of a cluster, answered by its only node, and seen by the clients that ask it."""

from collections.abc import Iterator

import kafka
import kafka.errors
import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from kafka.structs import TopicPartitionReplica
from kio.schema.errors import ErrorCode

from goqueue.wire.apis import ApiKey
from tests.conformance.raw import RawClient, raw_client
from tests.conformance.server import Server

WAIT_S = 10.0
PREFERRED, UNCLEAN = 0, 1
CLIENT_METRICS, GROUP = 16, 32


@pytest.fixture(scope="module")
def admin_python(server: Server) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=server.address)
    yield admin
    admin.close()


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with raw_client(server.host_and_port) as client:
        yield client


# --- reassignments ----------------------------------------------------------------------------


def test_partitions_stay_where_they_are(admin_python: KafkaAdminClient, topic: str):
    partition, missing = kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 9)
    assert admin_python.list_partition_reassignments() == {}
    for replicas, answer in (
        ([1], None),
        ([1, 2], kafka.errors.InvalidReplicationAssignmentError),
        (None, kafka.errors.NoReassignmentInProgressError),
    ):
        asked = admin_python.alter_partition_reassignments({partition: replicas})
        assert asked == {partition: answer}
    asked = admin_python.alter_partition_reassignments({missing: [1]})
    assert asked == {missing: kafka.errors.UnknownTopicOrPartitionError}


def test_a_log_stays_in_its_directory(admin_python: KafkaAdminClient, topic: str, tmp_path):
    (node,) = admin_python.describe_log_dirs()
    here, elsewhere = node["log_dirs"][0]["log_dir"], str(tmp_path)
    there, missing = (TopicPartitionReplica(topic, index, node["broker"]) for index in (0, 9))
    for replica, directory, answer in (
        (there, here, kafka.errors.NoError),
        (there, elsewhere, kafka.errors.LogDirNotFoundError),
        (missing, here, kafka.errors.UnknownTopicOrPartitionError),
    ):
        assert admin_python.alter_replica_log_dirs({replica: directory}) == {replica: answer}


def test_a_refused_reassignment_says_why(client: RawClient, topic: str):
    partitions = [
        {"partition_index": 0, "replicas": [2]},
        {"partition_index": 0, "replicas": []},
    ]
    answer = client.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=[{"name": topic, "partitions": partitions}],
    )
    refused = answer.responses[0].partitions
    assert {each.error_code for each in refused} == {ErrorCode.invalid_replica_assignment}
    assert [each.error_message for each in refused] == [
        "replicas on nodes [2]; there is only node 1",
        "a partition has at least one replica",
    ]


# --- elections --------------------------------------------------------------------------------


@pytest.mark.parametrize("election", [ElectionType.PREFERRED, ElectionType.UNCLEAN])
def test_no_election_is_needed(admin: AdminClient, topic: str, election: ElectionType):
    known, missing = TopicPartition(topic, 0), TopicPartition(topic, 9)
    results = admin.elect_leaders(election, [known, missing]).result(WAIT_S)
    assert {each.partition: error.name() for each, error in results.items()} == {
        0: "ELECTION_NOT_NEEDED",
        9: "UNKNOWN_TOPIC_OR_PART",
    }
    assert admin.elect_leaders(election, None).result(WAIT_S) == {}, "of all: those that had one"


@pytest.mark.parametrize("version", range(3))
def test_every_version_of_an_election_is_answered(client: RawClient, topic: str, version: int):
    election = {"election_type": PREFERRED} if version else {}
    asked = [{"topic": topic, "partitions": [0]}]
    answer = client.ask(ApiKey.ELECT_LEADERS, version, topic_partitions=asked, **election)
    (result,) = answer.replica_election_results[0].partition_result
    assert result.error_code is ErrorCode.election_not_needed


def test_an_unknown_kind_of_election_is_refused(client: RawClient, topic: str):
    answer = client.ask(ApiKey.ELECT_LEADERS, 2, topic_partitions=None, election_type=7)
    assert answer.error_code is ErrorCode.invalid_request


# --- the quorum and features ------------------------------------------------------------------


def test_the_quorum_has_one_voter(admin_python: KafkaAdminClient, server: Server, topic: str):
    quorum = admin_python.describe_metadata_quorum()
    (log,) = quorum["topics"]
    (partition,) = log["partitions"]
    (voter,) = partition["current_voters"]
    assert (log["topic_name"], partition["leader_id"], voter["replica_id"]) == (
        "__cluster_metadata",
        1,
        1,
    )
    assert partition["observers"] == []
    assert 0 < partition["high_watermark"] <= voter["log_end_offset"]
    (node,) = quorum["nodes"]
    host, port = server.host_and_port
    assert [(each["host"], each["port"]) for each in node["listeners"]] == [(host, port)]


def test_the_quorum_of_another_log_is_not_there(client: RawClient):
    asked = [{"topic_name": "orders", "partitions": [{"partition_index": 0}]}]
    answer = client.ask(ApiKey.DESCRIBE_QUORUM, topics=asked)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_features_are_described(admin_python: KafkaAdminClient):
    assert admin_python.describe_features()["metadata.version"]["finalized"] == (25, 25)


# --- permissions, passwords, quotas -----------------------------------------------------------


def test_permissions_are_disabled(admin_python: KafkaAdminClient):
    everything = ACLFilter(
        None, "*", ACLOperation.ANY, ACLPermissionType.ANY, ResourcePattern(ResourceType.TOPIC, "a")
    )
    with pytest.raises(kafka.errors.SecurityDisabledError):
        admin_python.describe_acls(everything)


def test_who_asks_may_do_everything(admin: AdminClient, admin_python: KafkaAdminClient, topic: str):
    asked = TopicCollection([topic])
    described = admin.describe_topics(asked, include_authorized_operations=True)[topic]
    assert len(described.result(WAIT_S).authorized_operations) == 8
    assert len(admin_python.describe_cluster()["authorized_operations"]) == 7


def test_nobody_has_a_password(admin: AdminClient, client: RawClient):
    assert admin.describe_user_scram_credentials().result(WAIT_S) == {}
    with pytest.raises(KafkaException) as caught:
        admin.describe_user_scram_credentials(["ann"])["ann"].result(WAIT_S)
    assert caught.value.args[0].name() == "RESOURCE_NOT_FOUND"
    twice = client.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[{"name": "ann"}, {"name": "ann"}]
    )
    assert [each.error_code for each in twice.results] == [ErrorCode.duplicate_resource]


@pytest.mark.parametrize("version", range(2))
def test_there_are_no_quotas(client: RawClient, version: int):
    component = {"entity_type": "user", "match_type": 2, "match": None}
    answer = client.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[component], strict=False
    )
    assert (answer.error_code, answer.entries) == (ErrorCode.none, ())


# --- what has settings ------------------------------------------------------------------------


def test_what_has_settings_is_listed(admin_python: KafkaAdminClient, client: RawClient, topic: str):
    group = f"{topic}-readers"
    assert group not in admin_python.list_config_resources().get("group", [])
    changed = client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [
                    {
                        "name": "consumer.session.timeout.ms",
                        "config_operation": 0,
                        "value": "60000",
                    }
                ],
            }
        ],
    )
    assert changed.responses[0].error_code is ErrorCode.none
    listed = admin_python.list_config_resources()
    assert listed["broker"] == ["1"]
    assert topic in listed["topic"]
    assert group in listed["group"]
    only = client.ask(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[GROUP]).config_resources
    assert {each.resource_type for each in only} == {GROUP}
    assert group in [each.resource_name for each in only]


def test_client_metrics_are_not_subscribed_to(client: RawClient):
    for version, asked in ((0, {}), (1, {"resource_types": [CLIENT_METRICS]})):
        answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, **asked)
        assert (answer.error_code, answer.config_resources) == (ErrorCode.none, ())
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[99])
    assert answer.error_code is ErrorCode.unsupported_version

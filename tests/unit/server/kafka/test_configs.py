"""Settings through the admin APIs: shown with their source, changed one by one or all at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.alter_configs.v2 import request as alter
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as incremental

from goqueue.broker import Broker
from goqueue.groups import GroupSettings
from goqueue.model.config import Config, TopicsConfig
from goqueue.model.errors import InvalidSetting
from goqueue.model.ids import GroupId
from goqueue.model.settings import SETTINGS
from goqueue.runtime import real_environment
from goqueue.server.kafka.config_entries import Source, ValueType
from goqueue.server.kafka.configs import BROKER, GROUP, TOPIC, ConfigOperation
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.messages import build
from tests.unit.server.kafka.asking import ask


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """One whose topics keep their data for an hour unless they say otherwise."""
    topics = TopicsConfig(settings={"retention.ms": "3600000"})
    environment = real_environment()
    async with Broker(
        environment, Config(data_dir=str(tmp_path), topics=topics)
    ).running() as broker:
        await broker.create_topic("a", settings={"segment.bytes": "5000"})
        yield broker
    environment.disk.close()


async def describe(broker: Broker, kind: int, name: str, **fields: Any) -> Any:
    keys = fields.pop("configuration_keys", None)
    resource = build(
        DescribeConfigsResource, resource_type=kind, resource_name=name, configuration_keys=keys
    )
    response = await ask(broker, ApiKey.DESCRIBE_CONFIGS, resources=(resource,), **fields)
    return response.results[0]


async def shown(broker: Broker, kind: int, name: str, **fields: Any) -> dict[str, Any]:
    result = await describe(broker, kind, name, **fields)
    assert result.error_code is ErrorCode.none
    return {config.name: config for config in result.configs}


# --- settings without effect here -------------------------------------------------------------

KAFKAS = {  # name, the default, another value, values that are refused
    "compression.gzip.level": ("-1", "9", "0", "high"),
    "compression.lz4.level": ("9", "17", "18"),
    "compression.zstd.level": ("3", "-5", "23"),
    "file.delete.delay.ms": ("60000", "0", "-1"),
    "flush.messages": ("9223372036854775807", "1", "0"),
    "follower.replication.throttled.replicas": ("", "*", "all", "1:"),
    "leader.replication.throttled.replicas": ("", "0:1,1:1", "*,0:1"),
    "local.retention.bytes": ("-2", "5000", "-3"),
    "local.retention.ms": ("-2", "5000", "-3"),
    "min.insync.replicas": ("1", "1", "2", "0"),
    "preallocate": ("false", "true", "yes"),
    "remote.log.copy.disable": ("false", "true", "1"),
    "remote.log.delete.on.disable": ("false", "true", "1"),
    "remote.storage.enable": ("false", "FALSE", "true", "maybe"),
    "segment.index.bytes": ("10485760", "4096", "3"),
    "segment.jitter.ms": ("0", "1000", "-1"),
    "unclean.leader.election.enable": ("false", "true", "0"),
}


@pytest.mark.parametrize("name", KAFKAS)
async def test_settings_for_what_one_node_does_not_have_are_taken_and_shown(
    broker: Broker, name: str
):
    default, other, *refused = KAFKAS[name]
    assert (await shown(broker, TOPIC, "a"))[name].value == default
    for value in (default, other):
        assert await set_one(broker, name, value) is ErrorCode.none
        found = (await shown(broker, TOPIC, "a"))[name]
        assert (found.value, found.config_source) == (value.lower(), Source.TOPIC)
    for value in refused:
        assert await set_one(broker, name, value) is ErrorCode.invalid_config
    await broker.create_topic("b", settings={name: default})


async def set_one(broker: Broker, name: str, value: str) -> ErrorCode:
    change = build(
        incremental.AlterableConfig, name=name, config_operation=ConfigOperation.SET, value=value
    )
    resource = build(
        incremental.AlterConfigsResource, resource_type=TOPIC, resource_name="a", configs=(change,)
    )
    answer = await ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))
    code: ErrorCode = answer.responses[0].error_code
    return code


async def test_a_promise_that_would_not_be_kept_is_refused_with_the_reason(broker: Broker):
    with pytest.raises(InvalidSetting, match="there is no tiered storage"):
        await broker.create_topic("tiered", settings={"remote.storage.enable": "true"})


# --- the server's addresses -------------------------------------------------------------------


async def test_the_address_that_clients_are_told_counts_as_given(broker: Broker):
    configs = await shown(broker, BROKER, "1")
    advertised = configs["advertised.listeners"]
    assert advertised.value == "PLAINTEXT://127.0.0.1:9092"
    assert advertised.config_source == Source.STATIC_BROKER


async def test_what_is_not_set_on_the_server_can_be_unset(broker: Broker):
    """As `kafka-reassign-partitions.sh --verify` does with its throttles."""

    for name in (RATE, "replica.alter.log.dirs.io.max.bytes.per.second"):
        done = await change(broker, (name, ConfigOperation.DELETE, None), name="1", kind=BROKER)
        assert done.error_code is ErrorCode.none


# --- groups -----------------------------------------------------------------------------------


async def test_a_consumer_groups_sessions_and_heartbeats_are_set_by_kafkas_names(broker: Broker):
    async def alter_group(**values: str | None) -> ErrorCode:
        changes = tuple(
            build(
                incremental.AlterableConfig,
                name=name.replace("_", "."),
                config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                value=value,
            )
            for name, value in values.items()
        )
        resource = build(
            incremental.AlterConfigsResource,
            resource_type=GROUP,
            resource_name="readers",
            configs=changes,
        )
        answer = await ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,))
        code: ErrorCode = answer.responses[0].error_code
        return code

    async def told() -> dict[str, tuple[str, int]]:
        configs = await shown(broker, GROUP, "readers")
        return {
            name: (configs[name].value, configs[name].config_source)
            for name in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
        }

    assert await told() == {
        "consumer.session.timeout.ms": ("30000", Source.DEFAULT),
        "consumer.heartbeat.interval.ms": ("3000", Source.DEFAULT),
    }
    code = await alter_group(
        consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="5000"
    )
    assert code is ErrorCode.none
    assert await told() == {
        "consumer.session.timeout.ms": ("60000", Source.GROUP),
        "consumer.heartbeat.interval.ms": ("5000", Source.GROUP),
    }
    assert broker.group_configs.consumer_settings(GroupId("readers")) == GroupSettings(
        60_000, 5_000
    )
    assert await alter_group(consumer_session_timeout_ms="soon") is ErrorCode.invalid_config
    assert await alter_group(consumer_session_timeout_ms="5") is ErrorCode.invalid_config
    assert await alter_group(consumer_session_timeout_ms=None) is ErrorCode.none
    assert broker.group_configs.consumer_settings(GroupId("readers")) == GroupSettings(None, 5_000)
    assert not broker.queues.groups, "no queue group is made of it"


# --- DescribeConfigs --------------------------------------------------------------------------


async def test_a_topic_shows_every_setting_and_its_source(broker: Broker):
    configs = await shown(broker, TOPIC, "a")
    assert configs.keys() == SETTINGS.keys()
    found = {name: (each.value, each.config_source) for name, each in configs.items()}
    assert found["segment.bytes"] == ("5000", Source.TOPIC)
    assert found["retention.ms"] == ("3600000", Source.STATIC_BROKER)
    assert found["retention.bytes"] == ("-1", Source.DEFAULT)
    assert not any(each.read_only for each in configs.values())
    assert configs["segment.bytes"].config_type == ValueType.INT
    assert configs["cleanup.policy"].config_type == ValueType.LIST


async def test_synonyms_are_the_layers_below(broker: Broker):
    await broker.change_settings("a", {"retention.ms": "5"})
    configs = await shown(broker, TOPIC, "a", include_synonyms=True)
    layers = [(each.name, each.value, each.source) for each in configs["retention.ms"].synonyms]
    assert layers == [
        ("retention.ms", "5", Source.TOPIC),
        ("log.retention.ms", "3600000", Source.STATIC_BROKER),
        ("log.retention.ms", "604800000", Source.DEFAULT),
    ]
    assert not (await shown(broker, TOPIC, "a"))["retention.ms"].synonyms


async def test_documentation_is_given_when_asked_for(broker: Broker):
    with_text = await shown(broker, TOPIC, "a", include_documentation=True)
    assert all(each.documentation for each in with_text.values())
    without = await shown(broker, TOPIC, "a")
    assert not any(each.documentation for each in without.values())


async def test_only_the_settings_asked_for_are_shown(broker: Broker):
    keys = ("retention.ms", "nonsense")
    assert list(await shown(broker, TOPIC, "a", configuration_keys=keys)) == ["retention.ms"]
    assert len(await shown(broker, TOPIC, "a", configuration_keys=())) == len(SETTINGS)


async def test_the_server_shows_its_settings_read_only_by_kafkas_names(broker: Broker):
    configs = await shown(broker, BROKER, "1")
    found = {name: (each.value, each.config_source) for name, each in configs.items()}
    assert found["node.id"] == ("1", Source.DEFAULT)
    assert found["num.partitions"] == ("3", Source.DEFAULT)
    assert found["auto.create.topics.enable"] == ("true", Source.DEFAULT)
    assert found["log.retention.ms"] == ("3600000", Source.STATIC_BROKER)
    assert found["message.max.bytes"] == ("1048588", Source.DEFAULT)
    assert found["log.dirs"] == (broker.config.data_dir, Source.STATIC_BROKER)
    assert found["advertised.listeners"][0] == "PLAINTEXT://127.0.0.1:9092"
    assert found["goqueue.http.address"][0] == "http://127.0.0.1:8080"
    changeable = {name for name, each in configs.items() if not each.read_only}
    assert changeable == {
        "follower.replication.throttled.rate",
        "goqueue.reassignment.throttled.rate",
        "leader.replication.throttled.rate",
    }


async def test_there_are_no_settings_of_all_brokers_at_once(broker: Broker):
    assert await shown(broker, BROKER, "") == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "no spaces", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "one", ErrorCode.invalid_request),
        (99, "a", ErrorCode.invalid_request),
    ],
)
async def test_what_there_is_not_has_no_settings(
    broker: Broker, kind: int, name: str, code: ErrorCode
):
    refused = await describe(broker, kind, name)
    assert refused.error_code is code
    assert refused.error_message
    assert (refused.resource_type, refused.resource_name) == (kind, name)


@pytest.mark.parametrize("version", range(VERSIONS[ApiKey.DESCRIBE_CONFIGS].min, 5))
async def test_every_version_is_answered(broker: Broker, version: int):
    resources = tuple(
        build(
            DescribeConfigsResource, resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in ((TOPIC, "a"), (BROKER, "1"), (TOPIC, "nothing"))
    )
    response = await ask(
        broker, ApiKey.DESCRIBE_CONFIGS, version, resources=resources, include_synonyms=True
    )
    assert len(response.results) == 3


# --- AlterConfigs -----------------------------------------------------------------------------


async def replace_all(
    broker: Broker, name: str, *settings: tuple[str, str | None], kind: int = TOPIC, **fields: Any
) -> Any:
    configs = tuple(
        build(alter.AlterableConfig, name=name, value=value) for name, value in settings
    )
    resource = build(
        alter.AlterConfigsResource, resource_type=kind, resource_name=name, configs=configs
    )
    response = await ask(broker, ApiKey.ALTER_CONFIGS, resources=(resource,), **fields)
    return response.responses[0]


async def test_altering_the_old_way_replaces_everything(broker: Broker):
    done = await replace_all(broker, "a", ("retention.bytes", "99"))
    assert (done.error_code, done.error_message) == (ErrorCode.none, None)
    assert broker.topic("a").overrides == {"retention.bytes": "99"}


async def test_altering_may_be_tried_out(broker: Broker):
    done = await replace_all(broker, "a", ("retention.bytes", "99"), validate_only=True)
    assert done.error_code is ErrorCode.none
    refused = await replace_all(broker, "a", ("retention.bytes", "many"), validate_only=True)
    assert refused.error_code is ErrorCode.invalid_config
    assert broker.topic("a").overrides == {"segment.bytes": "5000"}


@pytest.mark.parametrize(
    ("name", "settings", "kind", "code"),
    [
        ("a", [("retention.ms", None)], TOPIC, ErrorCode.invalid_request),
        ("a", [("retention.ms", "1"), ("retention.ms", "2")], TOPIC, ErrorCode.invalid_request),
        ("a", [("nonsense", "1")], TOPIC, ErrorCode.invalid_config),
        ("nothing", [], TOPIC, ErrorCode.unknown_topic_or_partition),
        ("__groups", [], TOPIC, ErrorCode.policy_violation),
        ("1", [("num.partitions", "5")], BROKER, ErrorCode.invalid_request),
        ("7", [("leader.replication.throttled.rate", "5")], BROKER, ErrorCode.invalid_request),
        ("a", [], 8, ErrorCode.invalid_request),
    ],
)
async def test_what_cannot_be_altered_is_refused(
    broker: Broker, name: str, settings: Any, kind: int, code: ErrorCode
):
    refused = await replace_all(broker, name, *settings, kind=kind)
    assert refused.error_code is code
    assert refused.error_message
    assert broker.topic("a").overrides == {"segment.bytes": "5000"}


# --- IncrementalAlterConfigs ------------------------------------------------------------------


async def change(
    broker: Broker,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    name: str = "a",
    **fields: Any,
) -> Any:
    configs = tuple(
        build(incremental.AlterableConfig, name=setting, config_operation=operation, value=value)
        for setting, operation, value in changes
    )
    resource = build(
        incremental.AlterConfigsResource, resource_type=kind, resource_name=name, configs=configs
    )
    response = await ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,), **fields)
    return response.responses[0]


async def test_settings_are_set_and_deleted_one_by_one(broker: Broker):
    done = await change(
        broker,
        ("segment.bytes", ConfigOperation.DELETE, None),
        ("retention.ms", ConfigOperation.SET, "7"),
    )
    assert done.error_code is ErrorCode.none
    assert broker.topic("a").overrides == {"retention.ms": "7"}
    assert broker.topic("a").settings.segment_bytes == 64 * 1024 * 1024


async def test_lists_are_added_to_and_taken_from(broker: Broker):
    await change(broker, ("cleanup.policy", ConfigOperation.APPEND, "compact"))
    assert broker.topic("a").settings.cleanup_policy == {"compact", "delete"}
    await change(broker, ("cleanup.policy", ConfigOperation.SUBTRACT, "delete"))
    assert broker.topic("a").settings.cleanup_policy == {"compact"}


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        ("retention.ms", ConfigOperation.SET, "soon", ErrorCode.invalid_config),
        ("retention.ms", ConfigOperation.SET, None, ErrorCode.invalid_request),
        ("retention.ms", ConfigOperation.APPEND, "1", ErrorCode.invalid_config),
        ("nonsense", ConfigOperation.APPEND, "1", ErrorCode.invalid_config),
        ("cleanup.policy", ConfigOperation.APPEND, "shred", ErrorCode.invalid_config),
        ("cleanup.policy", ConfigOperation.SUBTRACT, "delete", ErrorCode.invalid_config),
        ("retention.ms", 4, "1", ErrorCode.invalid_request),
    ],
)
async def test_a_change_that_cannot_be_changes_nothing(
    broker: Broker, name: str, operation: int, value: str | None, code: ErrorCode
):
    refused = await change(
        broker, ("retention.bytes", ConfigOperation.SET, "1"), (name, operation, value)
    )
    assert refused.error_code is code
    assert name in refused.error_message
    assert broker.topic("a").overrides == {"segment.bytes": "5000"}


async def test_a_change_may_be_tried_out(broker: Broker):
    done = await change(broker, ("retention.ms", ConfigOperation.SET, "7"), validate_only=True)
    assert done.error_code is ErrorCode.none
    assert broker.topic("a").overrides == {"segment.bytes": "5000"}


async def test_the_servers_settings_stay_as_they_are(broker: Broker):
    setting = ("num.partitions", ConfigOperation.SET, "7")
    refused = await change(broker, setting, name="1", kind=BROKER)
    assert refused.error_code is ErrorCode.invalid_request
    assert "start" in refused.error_message


RATE = "leader.replication.throttled.rate"


async def test_throttles_of_nodes_are_set_for_one_or_for_all(broker: Broker):
    assert (await shown(broker, BROKER, "1"))[RATE].value == str(2**63 - 1)
    for name, rate in (("", "10"), ("1", "20")):
        done = await change(broker, (RATE, ConfigOperation.SET, rate), name=name, kind=BROKER)
        assert done.error_code is ErrorCode.none
    assert (await shown(broker, BROKER, ""))[RATE].value == "10"
    own = (await shown(broker, BROKER, "1"))[RATE]
    assert (own.value, own.config_source) == ("20", Source.DYNAMIC_BROKER)
    await change(broker, (RATE, ConfigOperation.DELETE, None), name="1", kind=BROKER)
    common = (await shown(broker, BROKER, "1"))[RATE]
    assert (common.value, common.config_source) == ("10", Source.DYNAMIC_DEFAULT_BROKER)
    refused = await change(broker, (RATE, ConfigOperation.SET, "fast"), name="1", kind=BROKER)
    assert refused.error_code is ErrorCode.invalid_config


async def test_a_resource_named_twice_is_changed_by_neither(broker: Broker):
    resource = build(
        incremental.AlterConfigsResource, resource_type=TOPIC, resource_name="a", configs=()
    )
    response = await ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource, resource))
    assert {each.error_code for each in response.responses} == {ErrorCode.invalid_request}

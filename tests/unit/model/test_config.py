"""What a reload may change, and what differs."""

import msgspec

from goqueue.cli.configuration import setting_types
from goqueue.model.config import (
    RELOADABLE,
    ClusterConfig,
    Config,
    KafkaConfig,
    differences,
    flatten,
    problems_of,
    reload,
)


def test_settings_that_differ_are_named_by_their_path():
    other = Config(kafka=KafkaConfig(idle_ms=5), log_level="debug")
    assert differences(Config(), other) == {"kafka.idle_ms": 5, "log_level": "debug"}


def test_a_reload_takes_over_what_it_may_and_nothing_else():
    wanted = Config(
        node_id=9, log_level="debug", kafka=KafkaConfig(listen="127.0.0.1:1", connections_max=7)
    )
    after = reload(Config(), wanted)
    assert differences(Config(), after) == {"log_level": "debug", "kafka.connections_max": 7}


def test_a_setting_of_a_table_that_is_gone_counts_as_different():
    before = msgspec.convert({"topics": {"settings": {"retention.ms": "5"}}}, Config)
    assert differences(before, Config()) == {"topics.settings.retention.ms": None}


def test_every_setting_that_may_be_reloaded_exists():
    assert setting_types().keys() >= RELOADABLE


def test_nodes_on_several_machines_need_a_secret_and_certificates() -> None:
    def problems(*, insecure: bool = False, **settings: str) -> list[str]:
        tree = {"listen": "10.0.0.1:7000", **settings}
        cluster = msgspec.convert(tree, ClusterConfig)
        return problems_of(Config(insecure=insecure, cluster=cluster))

    assert [("secret" in each, "certificate" in each) for each in problems()] == [
        (True, False),
        (False, True),
    ]
    (lacking,) = problems(secret_file="secret")
    assert "--insecure" in lacking
    assert problems(insecure=True, secret_file="secret") == []
    assert problems(secret_file="secret", cert_file="node.pem", ca_file="ca.pem") == []
    assert problems_of(Config(cluster=ClusterConfig(listen="127.0.0.1:7000"))) == []


def test_no_setting_is_a_secret_so_that_all_of_them_may_be_shown() -> None:
    """`--print-config`, DescribeConfigs and the log at the start show every setting."""
    names = [path for path, _ in flatten(msgspec.to_builtins(Config()))]
    words = ("password", "secret", "token", "key")
    found = [name for name in names if any(word in name.rpartition(".")[2] for word in words)]
    assert found
    assert all(name.endswith("_file") for name in found), found


def test_a_session_of_nodes_is_longer_than_a_few_heartbeats_and_no_eternity() -> None:
    def problems(session_ms: int) -> list[str]:
        return problems_of(Config(cluster=ClusterConfig(session_ms=session_ms)))

    assert problems(500) == problems(60_000) == []
    (problem,) = problems(499)
    assert problem.startswith("cluster.session_ms: must be between 500")
    assert problems(60_001)

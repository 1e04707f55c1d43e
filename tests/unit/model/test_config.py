"""What a reload may change, and what differs."""

import msgspec

from goqueue.cli.configuration import setting_types
from goqueue.model.config import RELOADABLE, Config, KafkaConfig, differences, reload


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

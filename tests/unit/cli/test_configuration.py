"""Defaults < file < variables < flags, and every problem at once."""

from pathlib import Path

import pytest

from goqueue.cli.configuration import (
    ConfigurationProblems,
    merge,
    setting_types,
    variable_of,
)
from goqueue.cli.toml import as_toml
from goqueue.model.config import Config


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "goqueue.toml"
    path.write_text(
        'node_id = 2\ndata_dir = "from-file"\n[kafka]\nlisten = "127.0.0.1:1"\nidle_ms = 7\n'
        '[topics.settings]\n"retention.ms" = 1000\n"cleanup.policy" = "compact"\n'
    )
    return path


def problems(**arguments: object) -> list[str]:
    given = {"flags": {}, "environment": {}, "config_file": None, **arguments}
    with pytest.raises(ConfigurationProblems) as caught:
        merge(**given)  # type: ignore[arg-type]
    return caught.value.problems


def test_nothing_given_is_the_defaults():
    assert merge({}, {}).config == Config()


def test_a_later_source_wins_setting_by_setting(file: Path):
    environment = {"GOQUEUE_DATA_DIR": "from-variable", "GOQUEUE_KAFKA_LISTEN": "127.0.0.1:2"}
    merged = merge({"kafka.listen": "127.0.0.1:3", "http.listen": None}, environment, file)
    config = merged.config
    assert (config.node_id, config.data_dir) == (2, "from-variable")
    assert (config.kafka.listen, config.kafka.idle_ms) == ("127.0.0.1:3", 7)
    assert config.http == Config().http


def test_every_value_knows_where_it_came_from(file: Path):
    merged = merge({"kafka.listen": "127.0.0.1:3"}, {"GOQUEUE_DATA_DIR": "d"}, file)
    origins = {path: given.origin for path, given in merged.given.items()}
    assert origins["node_id"] == str(file)
    assert origins["data_dir"] == "GOQUEUE_DATA_DIR"
    assert origins["kafka.listen"] == "--kafka"
    assert origins["kafka.request_ms"] == "default"


def test_the_file_can_be_named_by_a_variable(file: Path):
    assert merge({}, {"GOQUEUE_SERVER_CONFIG": str(file)}).config.node_id == 2


@pytest.mark.parametrize(
    "text",
    ["retention.ms=2000; cleanup.policy=compact,delete", '{"retention.ms": "2000"}'],
)
def test_topic_settings_are_merged_name_by_name(file: Path, text: str):
    merged = merge(
        {"topics.settings.segment.bytes": "1048576"}, {"GOQUEUE_TOPICS_SETTINGS": text}, file
    )
    settings = merged.config.topics.settings
    assert settings["retention.ms"] == "2000"
    assert settings["segment.bytes"] == "1048576"
    assert settings["cleanup.policy"].startswith("compact")


def test_variables_are_text_and_become_what_the_setting_is():
    config = merge(
        {},
        {
            "GOQUEUE_INSECURE": "true",
            "GOQUEUE_STORAGE_CHECKPOINT_MS": "5000",
            "GOQUEUE_KAFKA_IDLE_MS": "10m",
            "GOQUEUE_HTTP_IDLE_SECONDS": "1m30s",
            "GOQUEUE_SHUTDOWN_SECONDS": "2.5",
        },
    ).config
    assert config.insecure is True
    assert config.storage.checkpoint_ms == 5000
    assert (config.kafka.idle_ms, config.http.idle_seconds) == (600_000, 90)
    assert config.shutdown_seconds == 2.5


def test_lists_are_given_as_lists_in_files_and_with_commas_elsewhere(tmp_path: Path):
    path = tmp_path / "lists.toml"
    path.write_text('[http]\nhosts = ["mq.example", "*.corp.example"]\n')
    environment = {"GOQUEUE_HTTP_CORS_ORIGINS": "https://a.example, http://b.example:3000"}
    merged = merge({"http.trusted_proxies": "127.0.0.1,10.0.0.0/8"}, environment, path)
    http = merged.config.http
    assert http.hosts == ["mq.example", "*.corp.example"]
    assert http.cors_origins == ["https://a.example", "http://b.example:3000"]
    assert http.trusted_proxies == ["127.0.0.1", "10.0.0.0/8"]
    saved = tmp_path / "saved.toml"
    saved.write_text(as_toml(merged))
    assert merge({}, {}, saved).config == merged.config


def test_lists_are_checked_entry_by_entry(tmp_path: Path):
    found = problems(
        environment={
            "GOQUEUE_HTTP_HOSTS": "mq.example:80",
            "GOQUEUE_HTTP_CORS_ORIGINS": "*,app.example,https://app.example/",
            "GOQUEUE_HTTP_ROOT_PATH": "mq/",
            "GOQUEUE_HTTP_TRUSTED_PROXIES": "proxy.example",
        }
    )
    assert [each.partition(":")[0] for each in found] == [
        "http.hosts",
        *["http.cors_origins"] * 3,
        "http.root_path",
        "http.trusted_proxies",
    ]


def test_all_problems_are_reported_at_once(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text('[kafka]\nlisen = "127.0.0.1:1"\nidle_ms = "soon"\n')
    found = problems(
        flags={"http.listen": "0.0.0.0:80"},
        environment={"GOQUEUE_KAFKA_LISTN": "x", "GOQUEUE_NODE_ID": "one"},
        config_file=path,
    )
    assert len(found) == 5
    told = "\n".join(found)
    assert "did you mean kafka.listen?" in told
    assert "did you mean GOQUEUE_KAFKA_LISTEN?" in told
    assert "kafka.idle_ms: 'soon' is not a duration: write 500ms, 30s" in told
    assert "(from GOQUEUE_NODE_ID)" in told
    assert "(from --http)" in told


def test_a_missing_or_broken_file_is_a_problem(tmp_path: Path):
    assert "cannot be read" in problems(config_file=tmp_path / "none.toml")[0]
    broken = tmp_path / "broken.toml"
    broken.write_text("= 3")
    assert "cannot be read" in problems(config_file=broken)[0]


def test_a_strange_variable_is_warned_about_and_a_service_link_is_not():
    merged = merge({}, {"GOQUEUE_COLOUR_OF_THE_DAY": "red", "GOQUEUE_HTTP_PORT": "tcp://10.0.0.1"})
    assert len(merged.warnings) == 1
    assert "GOQUEUE_COLOUR_OF_THE_DAY" in merged.warnings[0]


def test_the_variables_of_clients_and_tests_are_known():
    environment = {"GOQUEUE_SERVER": "http://x", "GOQUEUE_SIM_SEED": "1", "GOQUEUE_COMPILE": "0"}
    assert merge({}, environment).warnings == []


def test_no_two_settings_share_a_variable():
    variables = [variable_of(path) for path in setting_types()]
    assert len(set(variables)) == len(variables)


def test_the_printed_configuration_can_be_given_back(file: Path, tmp_path: Path):
    merged = merge({"kafka.listen": "127.0.0.1:3"}, {}, file)
    saved = tmp_path / "saved.toml"
    saved.write_text(as_toml(merged))
    assert merge({}, {}, saved).config == merged.config

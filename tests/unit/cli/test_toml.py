"""The effective configuration as TOML that can be read again."""

import tomllib

from goqueue.cli.configuration import Given, Merged
from goqueue.cli.toml import as_toml
from goqueue.model.config import Config
from tests.unit.cli.invocation import run


def test_tables_values_and_origins():
    text = run("server", "--print-config", "--node-id", "7", "-o", "table", code=0).stdout
    tree = tomllib.loads(text)
    assert tree["node_id"] == 7
    assert tree["kafka"]["listen"] == "127.0.0.1:9092"
    lines = [line.split() for line in text.splitlines()]
    assert ["node_id", "=", "7", "#", "--node-id"] in lines


def test_a_name_with_a_dot_is_quoted_and_any_text_is_a_string():
    text = as_toml(_merge({"topics.settings.retention.ms": 'a "quoted" \\ text\n'}))
    assert tomllib.loads(text) == {"topics": {"settings": {"retention.ms": 'a "quoted" \\ text\n'}}}


def _merge(values: dict[str, str]) -> Merged:
    given = {path: Given(value, "a test") for path, value in values.items()}
    return Merged(Config(), given, [])

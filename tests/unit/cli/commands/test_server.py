"""The configuration that `goqueue server` starts with, and what it refuses."""

import msgspec

from tests.unit.cli.invocation import run


def test_all_problems_of_the_configuration_come_as_a_numbered_list():
    result = run("server", "--kafka", "nonsense", "--http", "0.0.0.0:1", "--set", "topics.x=1")
    assert result.exit_code == 2
    for number in ("1. ", "2. ", "3. "):
        assert f"\n{number}" in result.stderr


def test_the_configuration_can_be_shown_with_where_it_is_from():
    result = run("server", "--print-config", "--node-id", "7", env={"GOQUEUE_DATA_DIR": "d"})
    assert result.exit_code == 0
    assert "node_id = 7" in result.stdout
    assert "# --node-id" in result.stdout
    assert "# GOQUEUE_DATA_DIR" in result.stdout
    shown = msgspec.json.decode(run("server", "--print-config", "-o", "json").stdout)
    assert shown["kafka.listen"] == {"value": "127.0.0.1:9092", "from": "default"}

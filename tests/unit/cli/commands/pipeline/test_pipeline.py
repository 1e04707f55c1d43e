"""`goqueue pipeline`: what is refused before Spark starts."""

import pytest
from typer.testing import Result

from goqueue.cli import jobs
from tests.unit.cli import invocation


def run(*arguments: str) -> Result:
    return invocation.run("pipeline", *arguments)


def refusal(*arguments: str) -> str:
    """What a command that makes no sense is told, before Spark starts."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", ["archive", "replay", "vacuum", "compact-files"])
def test_every_command_has_help(command: str):
    result = run(command, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["archive", "a"],
        ["replay", "--to", "a", "--topic", "b"],
        ["report", "a"],
        ["compact", "a"],
        ["dlq", "triage", "a"],
        ["dlq", "redrive", "a"],
        ["sql", "select 1"],
    ],
    ids=" ".join,
)
def test_a_broker_that_is_not_there_is_noticed_before_spark_starts(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GOQUEUE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setattr(jobs, "BROKER_SECONDS", 0.1)
    result = run(*arguments)
    assert result.exit_code == 3, result.output
    assert "no broker's Kafka listener answers at 127.0.0.1:1" in result.output
    assert "--bootstrap" in result.output


@pytest.mark.parametrize("missing", ["pyspark", "py4j", "pyarrow"])
def test_without_spark_the_way_to_get_it_is_told(missing: str, monkeypatch: pytest.MonkeyPatch):
    def not_there(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(f"No module named '{missing}.sql'", name=f"{missing}.sql")

    monkeypatch.setattr("goqueue.cli.commands.pipeline.sql.reached_broker", not_there)
    result = run("sql", "select 1")
    assert result.exit_code == 1
    assert "pip install 'goqueue[spark]'" in result.output
    assert "Traceback" not in result.output

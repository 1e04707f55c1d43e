"""The command as a whole: help, version, exit codes, and that it starts quickly."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from goqueue._version import __version__
from goqueue.cli.commands.version import hot_modules
from goqueue.cli.main import COMMANDS, app

NOBODY = "http://127.0.0.1:1"
HEAVY = ("asyncio", "httpx", "litestar", "pydantic", "rich", "structlog", "goqueue.broker")


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOQUEUE_CONFIG", str(tmp_path / "config.yaml"))


def run(*arguments: str, **options: object) -> Result:
    return CliRunner().invoke(app, arguments, **options)  # type: ignore[arg-type]


def test_help_lists_every_command_under_its_heading():
    result = run("--help")
    assert result.exit_code == 0
    for command, heading in COMMANDS.items():
        assert f" {command} " in result.stdout
        assert heading in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str):
    for flag in ("--help", "-h"):
        result = run(command, flag)
        assert result.exit_code == 0, result.output
        assert f"goqueue {command}" in result.stdout.replace("root", "goqueue")


def test_version_tells_of_every_hot_module_and_of_the_server():
    facts = msgspec.json.decode(run("version", "-s", NOBODY).stdout)
    assert facts["version"] == __version__
    assert facts["modules"] == hot_modules()
    assert set(facts["modules"]) >= {"goqueue.model.murmur", "goqueue.model.records"}
    assert facts["server"] == {"url": NOBODY, "problem": "no server there"}
    assert "server" not in msgspec.json.decode(run("version", "--client").stdout)


def test_version_is_readable_too():
    shown = run("version", "--client", "--output", "table").stdout
    assert ["goqueue:", __version__] in [line.split() for line in shown.splitlines()]


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics",),
        ("topic", "create"),
        ("topic", "list", "--output", "xml"),
        ("topic", "create", "t", "--set", "retention.ms"),
        ("topic", "alter", "t"),
        ("topic", "delete", "t"),
        ("produce", "t", "--tombstone"),
        ("produce", "t", "--format", "xml"),
        ("produce", "t", "-m", "x", "--timestamp", "soon"),
        ("consume", "t", "--from-latest", "--from-beginning"),
        ("consume", "t", "--offset", "4"),
        ("consume", "t", "--offset", "first"),
        ("consume", "t", "--follow", "--to-time", "now"),
        ("consume", "t", "--format", "{nothing}"),
        ("server", "--kafka", "nonsense"),
        ("server", "--set", "nonsense=1"),
        ("topic", "list", "-c", "nowhere"),
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: tuple[str, ...]):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


def test_a_slip_of_the_fingers_gets_a_suggestion():
    assert "Did you mean 'topic'" in run("topc").stderr


@pytest.mark.parametrize(
    "arguments",
    [("topic", "list"), ("produce", "t", "-m", "x"), ("consume", "t"), ("consume", "t", "-f")],
)
def test_no_server_ends_with_3_and_says_what_to_do(arguments: tuple[str, ...]):
    result = run(*arguments, "--server", NOBODY)
    assert result.exit_code == 3
    assert "start one with `goqueue server`" in result.stderr
    assert "Traceback" not in result.output


def test_global_options_may_stand_before_and_after_the_command():
    for arguments in (("-s", NOBODY, "topic", "list"), ("topic", "list", "-s", NOBODY)):
        assert NOBODY in run(*arguments).stderr
    assert "second:2" in run("-s", "first:1", "topic", "list", "-s", "second:2").stderr


def test_an_option_s_value_may_look_like_a_global_option():
    result = run("produce", "t", "-m", "-s", "--server", NOBODY)
    assert result.exit_code == 3


# --- the server's configuration -------------------------------------------------------------------


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


# --- starting quickly -----------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, check=True, text=True
    )
    return set(shown.stdout.splitlines())


def test_version_loads_nothing_heavy():
    loaded = loaded_by(
        "import contextlib, io\n"
        "from goqueue.cli.main import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app(['version', '-s', '{NOBODY}', '-o', 'json'])"
    )
    assert not loaded.intersection(HEAVY)


def test_importing_the_package_loads_next_to_nothing():
    loaded = loaded_by("import goqueue")
    assert {name for name in loaded if name.startswith("goqueue")} == {"goqueue"}
    assert not loaded.intersection({*HEAVY, "msgspec", "typing"})


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "sign"), [("zsh", "#compdef"), ("bash", "COMPREPLY"), ("fish", "complete --command")]
)
def test_completion_is_shown_for_the_shell_that_is_named(shell: str, sign: str):
    result = CliRunner().invoke(app, ["--show-completion", shell])
    assert sign in result.stdout


def test_there_is_no_completion_for_an_unknown_shell():
    result = CliRunner().invoke(app, ["--show-completion", "tcsh"])
    assert result.exit_code == 2
    assert "tcsh" in result.stderr

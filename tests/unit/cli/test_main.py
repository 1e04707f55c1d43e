"""The command as a whole: help, exit codes, and that it starts quickly."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from goqueue._version import __version__
from goqueue.cli.main import COMMANDS, app
from goqueue.client.http.retries import Retries
from tests.unit.cli.invocation import run

NOBODY = "http://127.0.0.1:1"
HEAVY = ("asyncio", "httpx", "litestar", "pydantic", "rich", "structlog", "goqueue.broker")


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


def test_the_version_is_one_line_without_a_server():
    result = run("--version", "--server", NOBODY)
    assert (result.exit_code, result.stdout) == (0, f"goqueue {__version__}\n")


def test_the_help_of_a_flag_shows_no_value():
    assert "<bool>" not in run("server", "--help").stdout + run("--help").stdout


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics",),
        ("server", "--kafka", "nonsense"),
        ("server", "--set", "nonsense=1"),
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
def test_no_server_ends_with_3_and_says_what_to_do(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    impatient = Retries(count_max=1, delay_seconds=0.01)  # who follows waits for a restart
    monkeypatch.setattr("goqueue.client.http.async_client.FOLLOWING", impatient)
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


# --- starting quickly -----------------------------------------------------------------------------


def find_loaded_modules(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, check=True, text=True
    )
    return set(shown.stdout.splitlines())


def test_importing_the_package_loads_next_to_nothing():
    loaded = find_loaded_modules("import goqueue")
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

"""The command `goqueue`.

A command is a file in `commands/` that holds a Typer `app`, filled by `goqueue.cli.command`, and a
line in `COMMANDS` here.  It is loaded when it is named, or when help lists it; what it needs beyond
Typer it imports when it runs.  So `goqueue version` loads neither an HTTP client nor a broker.
"""

import contextlib
import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from goqueue._version import __version__
from goqueue.cli.failures import ExitCode, explain
from goqueue.cli.session import Session
from goqueue.cli.startup import use_plain_types

# The name of each command and the heading it stands under in the help.
COMMANDS: Final = {
    "server": "Broker",
    "version": "Broker",
    "doctor": "Broker",
    "top": "Broker",
    "cluster": "Broker",
    "backup": "Broker",
    "restore": "Broker",
    "topic": "Topics and messages",
    "produce": "Topics and messages",
    "consume": "Topics and messages",
    "group": "Topics and messages",
    "schedule": "Topics and messages",
    "delay": "Topics and messages",
    "trace": "Topics and messages",
    "schema": "Topics and messages",
    "queue": "Queues",
    "dlq": "Queues",
    "txn": "Topics and messages",
    "pipeline": "Data pipelines",
    "user": "Users and permissions",
    "key": "Users and permissions",
    "acl": "Users and permissions",
    "quota": "Users and permissions",
    "audit": "Users and permissions",
    "tenant": "Users and permissions",
    "login": "Settings of this command",
    "logout": "Settings of this command",
    "config": "Settings of this command",
}
COMPLETED_SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")
LOCAL_COMMANDS: Final = {"server", "restore"}  # talk to nobody

EPILOG: Final = (
    "[dim]Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 no server answered,"
    " 4 not found, 5 conflict, 6 not logged in or not allowed, 130 interrupted.[/dim]"
)


class CommandTable(TyperGroup):
    """Loads a command when it is asked for, and turns errors into texts and exit codes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, TyperCommand("not loaded yet"))
        self.params = [*_options_of(_version_option), *_options_of(_global_options)]
        use_plain_types(self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = self.commands[cmd_name]
        if command.name != cmd_name:
            command = self.commands[cmd_name] = _load(cmd_name)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        _complete_for_named_shell(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, `head` say, has all it wanted
            _abandon_stdout()
            raise typer.Exit(ExitCode.OK) from None
        except Exception as error:
            failure = explain(error)
            if failure is None:
                raise
            typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
            typer.echo(failure.text, err=True)
            raise typer.Exit(failure.code) from error
        return result


def _complete_for_named_shell(context: Any, arguments: list[str]) -> None:
    """`--show-completion zsh`: Typer itself only knows the shell that it runs in."""
    for option in ("--show-completion", "--install-completion"):
        if option not in arguments[:-1]:
            continue
        shell = arguments[arguments.index(option) + 1]
        if shell not in COMPLETED_SHELLS:
            known = ", ".join(COMPLETED_SHELLS)
            raise typer.BadParameter(f"{option} {shell}: there is completion for {known}")
        from typer import completion

        callback = option.removeprefix("--").removesuffix("-completion") + "_callback"
        getattr(completion, callback)(context, None, shell)


def _load(name: str) -> Any:
    module = import_module(f"goqueue.cli.commands.{name}")
    command = typer.main.get_command(module.app)
    command.name = name
    command.rich_help_panel = COMMANDS[name]  # type: ignore[attr-defined]
    options = _options_of(_global_options)
    if name in LOCAL_COMMANDS:
        options = [each for each in options if each.name == "output"]
    _add_options(command, options)
    return command


def _add_options(command: Any, options: list[Any]) -> None:
    """Global options may stand after the command as well as before it."""
    use_plain_types(command)
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            _add_options(each, options)
    else:
        command.params = [*command.params, *options]


def _abandon_stdout() -> None:
    """Python flushes standard output when it ends, and must not meet the closed pipe again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())


# --- global options -------------------------------------------------------------------------------


def _remember(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    if value is not None and parameter.name is not None:
        setattr(context.ensure_object(Session), parameter.name, value)
    return value


def _options_of(function: Any) -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return list(typer.main.get_command(app).params)


def _global(help: str, *flags: str, metavar: str | None = None, min: float | None = None) -> Any:
    return typer.Option(
        *flags,
        help=help,
        metavar=metavar,
        min=min,
        callback=_remember,
        expose_value=False,
        rich_help_panel="Global options",
    )


SERVER: Final = "URL of the server. \\[GOQUEUE_SERVER; http://localhost:8080]"
CONTEXT: Final = "Named server from `goqueue config`. \\[GOQUEUE_CONTEXT]"
OUTPUT: Final = "table, json, yaml; or auto: table at a terminal, else JSON. \\[GOQUEUE_OUTPUT]"
TIMEOUT: Final = "Time limit of a request in seconds. \\[GOQUEUE_TIMEOUT; 30]"


def _global_options(
    server: Annotated[str | None, _global(SERVER, "--server", "-s", metavar="URL")] = None,
    context: Annotated[str | None, _global(CONTEXT, "--context", "-c", metavar="NAME")] = None,
    output: Annotated[str | None, _global(OUTPUT, "--output", "-o", metavar="FORMAT")] = None,
    wide: Annotated[
        bool | None, _global("Show all columns and full texts in tables.", "--wide")
    ] = None,
    timeout: Annotated[
        float | None, _global(TIMEOUT, "--timeout", metavar="SECONDS", min=0.001)
    ] = None,
) -> None:
    """Written once; every command gets them."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"goqueue {__version__}")
        raise typer.Exit(ExitCode.OK)


VERSION: Final = "Show the version and exit.  `goqueue version` tells more."


def _version_option(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help=VERSION, is_eager=True, expose_value=False, callback=_show_version
        ),
    ] = False,
) -> None:
    """Of the program alone."""


# --- the program ----------------------------------------------------------------------------------

app = typer.Typer(
    cls=CommandTable,
    name="goqueue",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)


@app.callback()
def goqueue(context: typer.Context) -> None:
    """A durable message queue: Kafka's protocol and HTTP over one log.

    Start a broker with `goqueue server`, then try:

    `goqueue topic create orders`, `goqueue produce orders -m hello`, `goqueue consume orders`
    """
    context.ensure_object(Session)


def main() -> None:
    app(prog_name="goqueue")

"""`goqueue config`: named servers to talk to, in the client's own file; a server's log level."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from goqueue.cli import contexts
from goqueue.cli.command import command
from goqueue.cli.contexts import ContextFile, ServerContext
from goqueue.cli.failures import ExitCode, Failure
from goqueue.cli.output import show, show_facts, show_value
from goqueue.cli.session import Session
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.client import Client

HIDDEN = "********"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Manage named servers (contexts), and change the log level of a server.",
)

Name = Annotated[str, argument("Name of the context.", metavar="NAME")]


@command(app, "view")
def view(
    session: Session,
    show_keys: Annotated[bool, option("Do not hide API keys and passwords.")] = False,
) -> None:
    """Show the configuration file and its path."""
    file = contexts.load()
    typer.secho(f"# {contexts.path()}", err=True, dim=True)
    is_json = session.chosen_output() == "json"
    show_value(file if show_keys else _hide_keys(file), "json" if is_json else "yaml")


@command(app, "get-contexts")
def get_contexts() -> None:
    """List the contexts; the current one is marked."""
    file = contexts.load()
    found: list[dict[str, Any]] = [
        {"name": name, "server": entry.server, "current": name == file.current_context}
        for name, entry in sorted(file.contexts.items())
    ]
    rows = [("*" if each["current"] else "", each["name"], each["server"]) for each in found]
    show(found, ("CURRENT", "NAME", "SERVER"), rows)


@command(app, "use-context")
def use_context(name: Name) -> None:
    """Make this context the current one."""
    file = contexts.load()
    file.find(name)
    contexts.save(msgspec.structs.replace(file, current_context=name))
    typer.echo(f"now using {name!r}", err=True)


@command(app, "set-context")
def set_context(
    session: Session,
    name: Name,
    api_key: Annotated[str | None, option("Key to authenticate with.", metavar="KEY")] = None,
) -> None:
    """Add or change a context; --server and --timeout are stored in it.

    The first context becomes the current one.
    """
    file = contexts.load()
    before = file.contexts.get(name, ServerContext())
    server = session.server or before.server
    if server != before.server:
        before = before.without_secrets()  # they are not for another server
    entry = msgspec.structs.replace(
        before,
        server=server,
        api_key=api_key or before.api_key,
        timeout=session.timeout or before.timeout,
    )
    if entry.server is None:
        raise Failure("a context needs a server: add --server URL", ExitCode.USAGE)
    current = file.current_context or name
    contexts.save(ContextFile(current, {**file.contexts, name: entry}))
    typer.echo(f"context {name!r} saved in {contexts.path()}", err=True)


@command(app, "delete-context")
def delete_context(name: Name) -> None:
    """Delete a context."""
    file = contexts.load()
    if name not in file.contexts:
        raise Failure(f"there is no context {name!r}", ExitCode.NOT_FOUND)
    left = {each: entry for each, entry in file.contexts.items() if each != name}
    current = None if file.current_context == name else file.current_context
    contexts.save(ContextFile(current, left))
    typer.echo(f"context {name!r} deleted", err=True)


@command(app, "log-level")
def log_level(
    client: "Client",
    level: Annotated[
        str | None, argument("debug, info, warning or error.", metavar="[LEVEL]")
    ] = None,
) -> None:
    """Show or change how much the running server logs, until its next restart or reload."""
    from goqueue.client.http.calls import topics

    found = client.send(topics.log_level() if level is None else topics.set_log_level(level))
    show_facts(found, [("log level", found.level)])


def _hide_keys(file: ContextFile) -> ContextFile:
    entries = {name: entry.without_secrets(HIDDEN) for name, entry in file.contexts.items()}
    return ContextFile(file.current_context, entries)

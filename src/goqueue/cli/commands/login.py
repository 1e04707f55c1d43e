"""`goqueue login`: who this command is to a server, tried and then kept in the client's file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from goqueue.cli import contexts
from goqueue.cli.command import command
from goqueue.cli.contexts import ContextFile, ServerContext
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import show_text
from goqueue.cli.secrets import PasswordFile, read_secret
from goqueue.cli.session import Session, Target
from goqueue.cli.startup import skip_httpx_command
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(add_completion=False)


class Identity(msgspec.Struct, frozen=True):
    """How to log in."""

    user: Annotated[str | None, option("Name of the user; else it is asked for.")] = None
    api_key: Annotated[
        bool, option("Log in with an API key, which is asked for instead of a password.")
    ] = False
    password_file: PasswordFile = None
    ca_file: Annotated[
        str | None,
        option("Certificates (PEM) of the authority that signed the server's.", metavar="FILE"),
    ] = None
    cert_file: Annotated[
        str | None,
        option("Log in with this certificate (PEM): no password is asked for.", metavar="FILE"),
    ] = None
    key_file: Annotated[
        str | None, option("Private key of --cert-file, unless it has both.", metavar="FILE")
    ] = None


@command(app)
def login(session: Session, identity: Identity) -> None:
    """Log in to a server, and keep that for the next commands.

    It is tried first, and then kept with the server's URL in the context that --context names, or
    the current one, in a file that only you can read.
    """
    name, target = _place(session)
    before = contexts.load().contexts.get(name, ServerContext())
    entry = _with_secret(_entry(target, before, identity), identity)
    _try(entry, target.timeout)
    file = contexts.load()
    contexts.save(ContextFile(name, {**file.contexts, name: entry}))
    who = entry.user or ("an API key" if entry.api_key else "a certificate")
    show_text(
        {"server": entry.server, "context": name, "user": entry.user},
        f"logged in to {entry.server} with {who}; kept as context {name!r} in {contexts.path()}",
    )


def _place(session: Session) -> tuple[str, Target]:
    """The context that is named, if it is there or not; else the one in use, if it is for this
    server; else one that is named after the server."""
    file = contexts.load()
    name = session.context
    if name is not None and name not in file.contexts:
        session.context = None
        if session.server is None:
            raise UsageFailure(f"there is no context {name!r} yet: add --server URL")
    target = session.target()
    if name is not None:
        return name, target
    if target.context and file.find(target.context).server == target.server:
        return target.context, target
    return urlsplit(target.server).netloc or target.server, target


def _entry(target: Target, before: ServerContext, identity: Identity) -> ServerContext:
    """Paths are kept whole: commands run in any directory."""

    def place(given: str | None) -> str | None:
        return str(Path(given).resolve()) if given else None

    known = before.ca_file if before.server == target.server else None
    return ServerContext(
        server=target.server,
        timeout=before.timeout,
        ca_file=place(identity.ca_file or target.ca_file or known),
        cert_file=place(identity.cert_file),
        key_file=place(identity.key_file),
    )


def _with_secret(entry: ServerContext, identity: Identity) -> ServerContext:
    if identity.api_key:
        if identity.user:
            raise UsageFailure("--user and --api-key: a key says whose it is")
        return msgspec.structs.replace(
            entry, api_key=read_secret("API key", identity.password_file)
        )
    if identity.cert_file and identity.user is None:
        return entry
    user = identity.user or _ask_user()
    password = read_secret("Password", identity.password_file)
    return msgspec.structs.replace(entry, user=user, password=password)


def _ask_user() -> str:
    if not sys.stdin.isatty():
        raise UsageFailure("not a terminal to ask at: give --user NAME, or --api-key")
    typed: str = typer.prompt("User", err=True)
    return typed


def _try(entry: ServerContext, timeout: float) -> None:
    """Raises `Unauthorized` and what else the client has to say."""
    from goqueue.client.errors import Unauthorized

    with _client(entry, timeout) as client:
        client.version()
    with _client(entry.without_secrets(), timeout) as client:
        try:
            client.version()
        except Unauthorized:
            return
    if entry.cert_file is None:
        typer.secho("note: the server demands no login", err=True, fg="yellow")


def _client(entry: ServerContext, timeout: float) -> "Client":
    skip_httpx_command()
    from goqueue.client import Client

    assert entry.server is not None
    return Client(
        entry.server,
        timeout=timeout,
        api_key=entry.api_key,
        user=entry.user if entry.password is not None else None,
        password=entry.password,
        ca_file=entry.ca_file,
        cert_file=entry.cert_file,
        key_file=entry.key_file,
    )

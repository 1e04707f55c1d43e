"""What every command knows: which server, and how to show what it said.

flag > `GOQUEUE_…` variable > context in the client's file > default
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.cli import contexts
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import OutputFormat
from goqueue.cli.startup import skip_httpx_command

if TYPE_CHECKING:
    from goqueue.client import AsyncClient, Client

DEFAULT_SERVER: Final = "http://localhost:8080"
DEFAULT_TIMEOUT: Final = 30.0
LOGIN_FIELDS: Final = ("api_key", "user", "password", "ca_file", "cert_file", "key_file")


class Target(msgspec.Struct, frozen=True):
    """A server and how to talk to it."""

    server: str
    api_key: str | None
    timeout: float
    context: str | None
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Target({self.server!r}, context={self.context!r}, user={self.user!r})"

    def options(self) -> dict[str, Any]:
        """What a client takes beside the server."""
        return {name: getattr(self, name) for name in ("timeout", *LOGIN_FIELDS)}


class Session:
    """The global options of one invocation; None where not given."""

    def __init__(self) -> None:
        self.server: str | None = None
        self.context: str | None = None
        self.output: str | None = None
        self.timeout: float | None = None
        self.wide = False

    def target(self) -> Target:
        server = self.server or os.environ.get("GOQUEUE_SERVER")
        chosen, entry = self._context(server)
        return Target(
            server=_url(server or entry.server or DEFAULT_SERVER),
            timeout=self.timeout or _timeout_variable() or entry.timeout or DEFAULT_TIMEOUT,
            context=chosen,
            **_login(entry),
        )

    def _context(self, server: str | None) -> tuple[str | None, contexts.ServerContext]:
        named = self.context or os.environ.get("GOQUEUE_CONTEXT")
        if server and not named:
            return None, contexts.ServerContext()  # a key must not go to a server it is not for
        file = contexts.load()
        chosen = named or file.current_context
        return chosen, file.find(chosen) if chosen else contexts.ServerContext()

    def client(self) -> "Client":
        skip_httpx_command()
        from goqueue.client import Client

        target = self.target()
        return Client(target.server, **target.options())

    def async_client(self) -> "AsyncClient":
        skip_httpx_command()
        from goqueue.client import AsyncClient

        target = self.target()
        return AsyncClient(target.server, **target.options())

    def output_format(self) -> OutputFormat:
        chosen = self.chosen_output()
        if chosen is not None:
            return chosen
        return "table" if sys.stdout.isatty() else "json"

    def chosen_output(self) -> OutputFormat | None:
        """The format that was asked for; None for `auto`."""
        match self.output or os.environ.get("GOQUEUE_OUTPUT") or "auto":
            case "table" | "json" | "yaml" as chosen:
                return chosen
            case "auto":
                return None
            case other:
                raise UsageFailure(f"output {other!r}: must be table, json, yaml or auto")


def _login(entry: contexts.ServerContext) -> dict[str, str | None]:
    """A login in variables replaces that of the context as a whole."""
    api_key, user = os.environ.get("GOQUEUE_API_KEY"), os.environ.get("GOQUEUE_USER")
    if api_key:
        secrets = {"api_key": api_key, "user": None, "password": None}
    elif user:
        secrets = {"api_key": None, "user": user, "password": _password_variable(user)}
    else:
        secrets = {"api_key": entry.api_key, "user": entry.user, "password": entry.password}
        if entry.password is None:
            secrets["user"] = None  # logged out
    return secrets | {
        name: os.environ.get(f"GOQUEUE_{name.upper()}") or getattr(entry, name)
        for name in ("ca_file", "cert_file", "key_file")
    }


def _password_variable(user: str) -> str:
    password = os.environ.get("GOQUEUE_PASSWORD")
    if not password:
        raise UsageFailure(f"GOQUEUE_USER is {user}: GOQUEUE_PASSWORD has to be set, too")
    return password


def _url(server: str) -> str:
    """`localhost:8080` and `:8080` are understood too."""
    if "://" not in server:
        server = f"http://localhost{server}" if server.startswith(":") else f"http://{server}"
    return server.rstrip("/")


def _timeout_variable() -> float | None:
    text = os.environ.get("GOQUEUE_TIMEOUT")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageFailure(f"GOQUEUE_TIMEOUT={text}: must be a number of seconds above 0")
    return seconds

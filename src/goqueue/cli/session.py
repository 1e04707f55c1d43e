"""What every command knows: which server, and how to show what it said.

flag > `GOQUEUE_…` variable > context in the client's file > default
"""

import os
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cli import contexts
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import OutputFormat
from goqueue.cli.startup import skip_httpx_command

if TYPE_CHECKING:
    from goqueue.client import AsyncClient, Client

DEFAULT_SERVER: Final = "http://localhost:8080"
DEFAULT_TIMEOUT: Final = 30.0


class Target(msgspec.Struct, frozen=True):
    """A server and how to talk to it."""

    server: str
    api_key: str | None
    timeout: float
    context: str | None


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
            api_key=os.environ.get("GOQUEUE_API_KEY") or entry.api_key,
            timeout=self.timeout or _timeout_variable() or entry.timeout or DEFAULT_TIMEOUT,
            context=chosen,
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
        return Client(target.server, api_key=target.api_key, timeout=target.timeout)

    def async_client(self) -> "AsyncClient":
        skip_httpx_command()
        from goqueue.client import AsyncClient

        target = self.target()
        return AsyncClient(target.server, api_key=target.api_key, timeout=target.timeout)

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

"""Where the service tells how pipelines are, and is told what to do: three topics of the broker.

    goqueue.pipelines            how each is, by name; compacted
    goqueue.pipelines.events     what happened to each: its history
    goqueue.pipelines.commands   what operators ask for

So `goqueue pipeline list` works from any machine that reaches the broker, with its permissions, and
the service needs no port of its own.  A broker that is away is no reason for Spark to stop: what
could not be told is told with the next news.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from goqueue.client.errors import TopicExists, TopicNotFound
from goqueue.client.http.messages import Message
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.alerts import Alert
from goqueue.spark.service.supervision import State

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.client.http.messages import Received

STATES: Final = "goqueue.pipelines"
EVENTS: Final = "goqueue.pipelines.events"
COMMANDS: Final = "goqueue.pipelines.commands"
DAY_MS: Final = 86_400_000
TOPICS: Final[dict[str, dict[str, str]]] = {
    STATES: {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)},
    EVENTS: {"retention.ms": str(30 * DAY_MS)},
    COMMANDS: {"retention.ms": str(DAY_MS)},
}

Verb = Literal["stop", "restart", "reset"]
VERBS: Final = ("stop", "restart", "reset")


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a pipeline is."""

    name: str
    state: State
    file: str
    time: int
    """Wall-clock milliseconds, of this news."""
    host: str = ""
    """Where the service runs."""
    restarts: int = 0
    """Because it failed, since the service started."""
    problem: str | None = None
    next_try: int | None = None
    queries: list[Progress] = []
    """A sink each."""
    alerts: list[Alert] = []
    """Those that are active."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    event: str
    time: int
    text: str = ""


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    verb: Verb
    start: str | None = None
    """Of `reset`: where to begin, as `from` of a source says it."""


class Board(Protocol):
    """What the service needs; raises `ClientError`."""

    def find_stopped(self) -> set[str]: ...
    def tell(self, standing: Standing) -> None: ...
    def forget(self, name: str) -> None: ...
    def note(self, event: Event) -> None: ...
    def commands(self) -> list[Command]: ...


class TopicBoard:
    """On a broker, over HTTP."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._next_command: int | None = None

    def make_topics(self) -> None:
        for name, settings in TOPICS.items():
            with contextlib.suppress(TopicExists):
                self._client.create_topic(name, partitions=1, settings=settings)
        self._next_command = self._client.fetch(COMMANDS, 0, offset="latest").next_offset

    def find_stopped(self) -> set[str]:
        """Those that an operator stopped: they stay so when the service starts again."""
        return {each.name for each in read_standings(self._client) if each.state == "stopped"}

    def tell(self, standing: Standing) -> None:
        self._client.publish(STATES, Message(msgspec.json.encode(standing), key=standing.name))

    def forget(self, name: str) -> None:
        self._client.publish(STATES, Message(None, key=name))

    def note(self, event: Event) -> None:
        self._client.publish(EVENTS, Message(msgspec.json.encode(event), key=event.name))

    def commands(self) -> list[Command]:
        """Those since the last call."""
        page = self._client.fetch(COMMANDS, 0, offset=self._next_command)
        self._next_command = page.next_offset
        found = (_decode(each.value, Command) for each in page.messages)
        return [each for each in found if each is not None]


def ask(client: "Client", command: Command) -> None:
    client.publish(COMMANDS, Message(msgspec.json.encode(command), key=command.name))


def read_standings(client: "Client") -> list[Standing]:
    """The newest of each pipeline, by name; none where no service ever ran."""
    newest: dict[bytes | None, Standing | None] = {}
    for each in _read(client, STATES):
        newest[each.key] = _decode(each.value, Standing)
    found = [each for each in newest.values() if each is not None]
    return sorted(found, key=lambda each: each.name)


def read_events(client: "Client", name: str, limit: int) -> list[Event]:
    """The newest of a pipeline, the oldest of them first."""
    found = (_decode(each.value, Event) for each in _read(client, EVENTS))
    return [each for each in found if each is not None and each.name == name][-limit:]


def _read(client: "Client", topic: str) -> "Iterator[Received]":
    try:
        yield from client.read(topic)
    except TopicNotFound:
        return


def _decode(value: bytes | None, kind: Any) -> Any:
    """None for what others wrote there."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError:
        return None

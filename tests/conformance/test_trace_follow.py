"""`goqueue trace --follow`, and spans on a server's standard output."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cli.commands import COMMAND, FREE_PORTS, RunningServer, environment
from tests.conformance.test_traces import PUBLISH, Api

DEADLINE_SECONDS = 30
Eventually = Callable[..., None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path, *FREE_PORTS, "--set", "traces.export=stdout")
    yield running
    running.end()


class Lines:
    """What a process prints, as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.found = list[str]()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.found += iter(self._process.stdout.readline, "")

    def has(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in list(self.found))


class Following:
    def __init__(self, server: RunningServer, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "--server", server.url, "trace", *arguments, "--follow"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.lines = Lines(self._process)

    def __enter__(self) -> Lines:
        return self.lines

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(DEADLINE_SECONDS)


def test_steps_are_told_as_they_come(server: RunningServer, eventually: Eventually):
    api = Api(server.url.removeprefix("http://"))
    api.post("/topics", name="orders", partitions=1)
    api.publish("orders", "x")
    printed = Lines(server.process)
    with (
        Following(server, "show", "orders/0/0", "-o", "json") as one,
        Following(server, "search", "--topic", "orders", "-o", "json") as some,
        Following(server, "recent", "-o", "table") as recent,
    ):
        eventually(lambda: one.has("publish.persisted"), within_s=DEADLINE_SECONDS)
        eventually(lambda: some.has("pending"), within_s=DEADLINE_SECONDS)
        (message,) = api.receive("orders", "w")
        api.post("/messages/ack", receipt_handle=message["receipt_handle"])
        eventually(lambda: one.has("consume.acked"), within_s=DEADLINE_SECONDS)
        eventually(lambda: some.has("completed", "consume.acked"), within_s=DEADLINE_SECONDS)
        eventually(lambda: recent.has("orders/0/0", "completed"), within_s=DEADLINE_SECONDS)
        told = [json.loads(line)["event_type"] for line in one.found]
    assert told == [*PUBLISH, "consume.fetched", "consume.acked"]  # each once
    check_spans(printed, eventually)


def check_spans(printed: Lines, eventually: Eventually) -> None:
    """A span a line, beside the line that the server prints when it is ready."""
    eventually(lambda: printed.has("consume.acked"), within_s=DEADLINE_SECONDS)
    spans: list[Any] = [json.loads(line) for line in printed.found]
    names = [each["name"] for each in spans if each["attributes"]["messaging.destination.name"]]
    assert [each for each in names if each.startswith(("publish", "consume"))] == [
        "publish",
        "consume.fetched",
        "consume.acked",
    ]
    assert {each["trace_id"] for each in spans if each["name"].startswith("consume")} == {
        spans[names.index("publish")]["trace_id"]
    }

"""Members of groups that know nothing but HTTP, and a server for them."""

import concurrent.futures
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from goqueue.model.config import Config, HttpConfig, KafkaConfig
from tests.conformance.group_server import GROUPS
from tests.conformance.server import Server

ANSWER_S_MAX = 30.0


class HttpGroupServer(Server):
    """In a hurry, as `GroupServer` is, and known by its HTTP address, too."""

    def __init__(self, directory: Path, **sections: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.host, self.port = free.getsockname()
        super().__init__(
            Config(
                data_dir=str(directory),
                kafka=KafkaConfig(listen="127.0.0.1:0"),
                http=HttpConfig(listen=f"{self.host}:{self.port}"),
                **{"groups": GROUPS, **sections},
            )
        )
        self.client = httpx.Client(
            base_url=f"http://{self.host}:{self.port}", timeout=ANSWER_S_MAX, trust_env=False
        )
        self._topics = 0

    def topic(self, partitions: int = 4, *, prefix: str = "topic") -> str:
        self._topics += 1
        name = f"{prefix}-{self._topics}"
        made = self.client.post("/topics", json={"name": name, "num_partitions": partitions})
        assert made.status_code == 201, made.text
        return name

    def fill(self, topic: str, count: int, partitions: int = 4, *, start: int = 0) -> None:
        """Messages `start` to `start + count`, dealt to the partitions in turn."""
        messages = [
            {"value": str(number), "partition": number % partitions}
            for number in range(start, start + count)
        ]
        sent = self.client.post(f"/topics/{topic}/messages", json={"messages": messages})
        assert sent.status_code == 200, sent.text

    def committed(self, group: str) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = self.get(f"/groups/{group}/offsets")["topics"]
        return found

    def connections(self) -> int:
        """How many clients of HTTP there are, the one that asks too."""
        lines = self.client.get("/metrics").text.splitlines()
        name = 'goqueue_active_connections{listener="http"} '
        return next(int(float(each[len(name) :])) for each in lines if each.startswith(name))

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        found = self.client.get(path, params=query)
        assert found.status_code == status, found.text
        return found.json()

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        found = self.client.post(path, json=body)
        assert found.status_code == status, found.text
        return found.json()


class HttpMember:
    """Does what it is told: says the generation and the answer that it heard of last."""

    def __init__(self, server: HttpGroupServer, group: str, *topics: str, **settings: Any) -> None:
        self._server = server
        self._path = f"/groups/{group}"
        self._threads = concurrent.futures.ThreadPoolExecutor()
        self.generation = 0
        self.poll_id: int | None = None
        self.partitions: frozenset[tuple[str, int]] = frozenset()
        wanted = {"topics": topics, "auto_commit_interval_ms": 0, **settings}
        self.member_id = self._learn(server.post(f"{self._path}/join", **wanted))["member_id"]

    def poll(self, timeout: str = "0", status: int = 200, **query: Any) -> Any:
        asked = {"member_id": self.member_id, "generation": self.generation, "timeout": timeout}
        if self.poll_id is not None:
            asked["seen"] = self.poll_id
        answer = self._server.get(f"{self._path}/poll", status, **{**asked, **query})
        return self._learn(answer) if status == 200 else answer

    def poll_in_background(self, timeout: str) -> "concurrent.futures.Future[Any]":
        """Returns when the server has begun to wait."""
        found = self._threads.submit(self.poll, timeout)
        with contextlib.suppress(TimeoutError):
            found.result(0.2)
        return found

    def heartbeat(self, status: int = 200, **body: Any) -> Any:
        said = {"member_id": self.member_id, "generation": self.generation, **body}
        answer = self._server.post(f"{self._path}/heartbeat", status, **said)
        return self._learn(answer) if status == 200 else answer

    def commit(self, offsets: dict[str, dict[int, int]], status: int = 200, **body: Any) -> Any:
        said = {"member_id": self.member_id, "generation": self.generation, **body}
        texts = {t: {str(p): o for p, o in some.items()} for t, some in offsets.items()}
        return self._server.post(f"{self._path}/offsets", status, **said, offsets=texts)

    def leave(self, **body: Any) -> None:
        self._server.post(f"{self._path}/leave", member_id=self.member_id, **body)

    def settle(self, others: "list[HttpMember]") -> None:
        """Everybody polls until everybody has what it will have."""
        for _ in range(10):
            for member in [self, *others]:
                member.poll()

    def _learn(self, answer: Any) -> Any:
        self.generation = answer["generation"]
        self.poll_id = answer.get("poll_id", self.poll_id)
        self.partitions = frozenset((p["topic"], p["partition"]) for p in answer["partitions"])
        return answer


def values(answer: Any) -> list[int]:
    return [int(message["value"]) for message in answer["messages"]]


class Read(NamedTuple):
    member: str
    partition: int
    offset: int
    value: int


class BusyMember:
    """Polls in a thread until the block ends, then leaves; all write into one journal."""

    def __init__(self, member: HttpMember, name: str, journal: list[Read]) -> None:
        self.member = member
        self.read_count = 0
        self._name = name
        self._journal = journal
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(ANSWER_S_MAX)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self.member.poll("300ms", limit=7)["messages"]:
                read = Read(
                    self._name, message["partition"], message["offset"], int(message["value"])
                )
                self._journal.append(read)
                self.read_count += 1
        self.member.leave()


@contextlib.contextmanager
def timed(*, at_least: float = 0.0, at_most: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert at_least <= took <= at_most, f"took {took:.2f} s"

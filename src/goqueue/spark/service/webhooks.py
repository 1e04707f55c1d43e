"""Alerts as POST requests, to whatever wakes people up; sent by a thread of its own."""

import contextlib
import queue
import threading
from typing import Final

import httpx
import msgspec

WAITING_MAX: Final = 1_000  # beyond that the oldest news are worth nothing
TIMEOUT_SECONDS: Final = 10.0
TRIES: Final = 3
PAUSE_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0


class Notice(msgspec.Struct, frozen=True):
    """What is sent, as JSON.  `text` alone says it all: chats show that."""

    text: str
    pipeline: str
    query: str
    alert: str
    state: str
    """`firing` or `resolved`."""
    time: int
    """Wall-clock milliseconds."""
    host: str


class Webhooks:
    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[str, Notice] | None] = queue.Queue(WAITING_MAX)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, url: str, notice: Notice) -> None:
        """Without waiting; one that cannot be queued is dropped, the history has it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((url, notice))

    def close(self) -> None:
        """What is waiting is sent, if it takes no longer than some seconds."""
        if self._thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(CLOSE_SECONDS)
        self._closing.set()

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None:
            url, notice = given
            for _ in range(TRIES):
                if self._post(url, notice) or self._closing.wait(PAUSE_SECONDS):
                    break

    def _post(self, url: str, notice: Notice) -> bool:
        """Whether that was all: what is refused for good is not sent again."""
        try:
            answer = httpx.post(
                url,
                content=msgspec.json.encode(notice),
                headers={"content-type": "application/json"},
                timeout=TIMEOUT_SECONDS,
            )
        except httpx.HTTPError:
            return False
        return answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR

"""Publishes the orders, at a pace, in a thread of its own."""

import threading
import time
from typing import Final

from demo.orders import messages
from goqueue import Client
from goqueue.client import Message

BATCH: Final = 500


class Publisher:
    def __init__(self, url: str, topic: str, count: int, per_second: int) -> None:
        self.published = 0
        self.failure: Exception | None = None
        self._url = url
        self._topic = topic
        self._count = count
        self._per_second = per_second
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            with Client(self._url) as client:
                self._publish(client)
        except Exception as error:  # told by `join`
            self.failure = error

    def _publish(self, client: Client) -> None:
        start = time.monotonic()
        batch: list[Message] = []
        for key, value in messages(self._count):
            batch.append(Message(value, key=key))
            if len(batch) == BATCH:
                self._send(client, batch, start)
                batch = []
        self._send(client, batch, start)

    def _send(self, client: Client, batch: list[Message], start: float) -> None:
        if batch:
            client.publish(self._topic, batch)
            self.published += len(batch)
            time.sleep(max(0.0, start + self.published / self._per_second - time.monotonic()))

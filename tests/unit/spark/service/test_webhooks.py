"""Alerts that are posted."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from goqueue.spark.service.webhooks import Notice, Webhooks

NOTICE = Notice("orders is stale", "orders", "orders.out", "stale", "firing", 7, "here")


class Receiver(HTTPServer):
    """Refuses as often as it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals = 0
        self.got: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    server: Receiver  # type: ignore[mutable-override]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.got.append(body)
        self.server.refusals -= 1
        self.send_response(503 if self.server.refusals >= 0 else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def webhooks(monkeypatch: pytest.MonkeyPatch) -> Webhooks:
    monkeypatch.setattr("goqueue.spark.service.webhooks.PAUSE_SECONDS", 0.01)
    return Webhooks()


def test_an_alert_is_posted_as_json_and_again_if_the_receiver_has_an_error(
    receiver: Receiver, webhooks: Webhooks
):
    receiver.refusals = 2
    webhooks.send(f"http://127.0.0.1:{receiver.server_port}/alerts", NOTICE)
    webhooks.close()
    assert len(receiver.got) == 3
    assert receiver.got[-1] == {
        "text": "orders is stale",
        "pipeline": "orders",
        "query": "orders.out",
        "alert": "stale",
        "state": "firing",
        "time": 7,
        "host": "here",
    }


def test_a_receiver_that_is_away_holds_up_nobody(receiver: Receiver, webhooks: Webhooks):
    webhooks.send("http://127.0.0.1:1/", NOTICE)
    webhooks.send(f"http://127.0.0.1:{receiver.server_port}/", NOTICE)
    webhooks.close()
    assert len(receiver.got) == 1

"""A server of a few lines behind httpx: answers from a script, and remembers what it was asked."""

from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from goqueue.api.messages import MessageBody, MessagePage
from goqueue.api.topics import Offsets, TopicDetail
from goqueue.client import Client

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class FakeServer:
    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return answer(request)


def said(status: int, body: Any, **headers: str) -> httpx.Response:
    """`body`: a body of the API, or what a server should not say."""
    return httpx.Response(
        status,
        content=msgspec.json.encode(body),
        headers={
            "content-type": "application/json",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        },
    )


def message(offset: int, *, partition: int = 0, time: int | None = None) -> MessageBody:
    return MessageBody(partition, offset, time, None, f"v{offset}", [], "normal")


def refused(status: int, code: str, message: str = "no", **details: Any) -> httpx.Response:
    return said(status, {"error": {"code": code, "message": message, "details": details}})


def page(
    *offsets: int,
    partition: int = 0,
    next_offset: int | None = None,
    at_end: bool = True,
    time: int = 1000,
    high_watermark: int | None = None,
) -> httpx.Response:
    messages = [message(each, partition=partition, time=time + each) for each in offsets]
    following = next_offset if next_offset is not None else (offsets[-1] + 1 if offsets else 0)
    end = following if high_watermark is None else high_watermark
    return said(200, MessagePage(messages, following, end, at_end))


def client_of(server: FakeServer, **options: object) -> Client:
    return Client("http://queue.test", transport=server.transport, **options)  # type: ignore[arg-type]


TOPIC = TopicDetail(
    name="t",
    topic_id="id",
    partitions=2,
    created_at=None,
    internal=False,
    settings={},
    total_messages=3,
    total_size_bytes=10,
    partition_offsets={0: Offsets(0, 1, 2), 1: Offsets(5, 9, 10)},
)

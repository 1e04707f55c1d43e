"""A server of a few lines behind httpx: answers from a script, and remembers what it was asked."""

from collections.abc import Callable
from typing import Any

import httpx

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
    return httpx.Response(
        status, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


def refused(status: int, code: str, message: str = "no", **details: Any) -> httpx.Response:
    return said(status, {"error": {"code": code, "message": message, "details": details}})


def page(
    *offsets: int, next_offset: int | None = None, at_end: bool = True, **more: Any
) -> httpx.Response:
    messages = [
        {"offset": offset, "timestamp": more.get("time", 1000) + offset, "value": f"v{offset}"}
        for offset in offsets
    ]
    following = next_offset if next_offset is not None else (offsets[-1] + 1 if offsets else 0)
    return said(
        200,
        {
            "messages": messages,
            "next_offset": following,
            "high_watermark": more.get("high_watermark", following),
            "at_end": at_end,
        },
    )

"""Answers to a tenant's users: with the names that they know, and nobody else's."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from goqueue.quotas import Namespace
from goqueue.server.http.asgi_types import Event, Send
from goqueue.server.http.tenancy.fields import body_out

# Lists of which all entries are gathered, whoever asks: entries of others are left out here.
FILTERED: Final = {"GET /schedules": ("schedules", "next")}


class Answer:
    """One answer on its way out.  An event stream passes event by event, all else at its end."""

    def __init__(
        self, send: Send, namespace: Namespace, route: str, may_see: Callable[[str], bool]
    ) -> None:
        """`may_see` decides about the names of lists that show everything."""
        self._may_see = may_see
        self._send = send
        self._namespace = namespace
        self._route = route
        self._start: Event | None = None
        self._is_stream = False
        self._parts: list[bytes] = []

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._start = event
            kind = dict(event["headers"]).get(b"content-type", b"")
            self._is_stream = kind.startswith(b"text/event-stream")
            if self._is_stream:
                await self._send(event)
            return
        body = bytes(event.get("body", b""))
        if self._is_stream:
            await self._send({**event, "body": self._change_events(body)})
            return
        self._parts.append(body)
        if not event.get("more_body", False):
            await self._finish()

    async def _finish(self) -> None:
        assert self._start is not None, "an answer starts with its status"
        body = self._change(b"".join(self._parts))
        headers = [
            (name, b"%d" % len(body) if name == b"content-length" else self._header(name, value))
            for name, value in self._start["headers"]
        ]
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name == b"location":
            return value.replace(b"/" + self._namespace.prefix.encode(), b"/")
        return value

    def _change(self, body: bytes) -> bytes:
        assert self._start is not None
        kind = dict(self._start["headers"]).get(b"content-type", b"")
        if not body or b"json" not in kind:
            return body
        try:
            decoded = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return body
        if self._route in FILTERED and self._start["status"] < 300:
            decoded = self._filter(decoded, *FILTERED[self._route])
        return msgspec.json.encode(body_out(decoded, self._namespace))

    def _filter(self, body: Any, listed: str, following: str) -> Any:
        holds = self._namespace.holds
        is_over = not all(holds(each["name"]) for each in body[listed])
        seen = [each for each in body[listed] if self._may_see(each["name"])]
        following_page = None if is_over else body.get(following)
        return {**body, listed: seen, following: following_page, "total": len(seen)}

    def _change_events(self, body: bytes) -> bytes:
        """`id:` and `data:` have names in them."""
        lines = body.split(b"\n")
        return b"\n".join(self._change_line(each) for each in lines)

    def _change_line(self, line: bytes) -> bytes:
        if line.startswith(b"id: "):
            return b"id: " + line[4:].removeprefix(self._namespace.prefix.encode())
        if line.startswith(b"data: "):
            try:
                decoded = msgspec.json.decode(line[6:])
            except (msgspec.DecodeError, UnicodeDecodeError):
                return line
            return b"data: " + msgspec.json.encode(body_out(decoded, self._namespace))
        return line

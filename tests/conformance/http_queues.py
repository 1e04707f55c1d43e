"""Workers of a queue that know nothing but HTTP."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.conformance.http_groups import HttpGroupServer

HASTY = {  # a group for which no test waits long
    "backoff_base_ms": 50,
    "backoff_max_ms": 200,
    "visibility_ms": 600,
}


class Queue:
    """One group's way through one topic."""

    def __init__(self, server: HttpGroupServer, topic: str, group: str, **settings: Any) -> None:
        self.server = server
        self.topic = topic
        self.group = group
        found = server.client.put(f"/groups/{group}/queue", json={**HASTY, **settings})
        assert found.status_code == 200, found.text

    def publish(self, *values: str, **fields: Any) -> list[dict[str, Any]]:
        messages = [{"value": value, **fields} for value in values]
        found = self.server.post(f"/topics/{self.topic}/messages", messages=messages)
        results: list[dict[str, Any]] = found["results"]
        return results

    def receive(self, count: int = 10, *, wait: str = "0", **fields: Any) -> list[dict[str, Any]]:
        found = self.server.post(
            f"/queues/{self.topic}/receive",
            **{"group": self.group, "max_messages": count, "wait": wait, **fields},
        )
        messages: list[dict[str, Any]] = found["messages"]
        return messages

    def one(self, *, wait: str = "10s", **fields: Any) -> dict[str, Any]:
        (message,) = self.receive(1, wait=wait, **fields)
        return message

    def settle(self, verb: str, message: dict[str, Any], status: int = 200, **fields: Any) -> Any:
        handle = message["receipt_handle"]
        return self.server.post(f"/messages/{verb}", status, receipt_handle=handle, **fields)

    def settle_all(self, verb: str, messages: list[dict[str, Any]], **fields: Any) -> Any:
        handles = [each["receipt_handle"] for each in messages]
        return self.server.post(f"/messages/{verb}", receipt_handles=handles, **fields)

    def held(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.server.get(f"/groups/{self.group}/in-flight")[
            "messages"
        ]
        return messages

    def letters(self, **query: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.server.get(f"/topics/{self.topic}/dlq", **query)
        return found

    def floors(self) -> dict[int, int]:
        """By partition: the group is done with everything below."""
        (group,) = self.server.get("/reliability/stats", group=self.group)["groups"]
        return {
            each["partition"]: each["committed_offset"]
            for each in group["partitions"]
            if each["topic"] == self.topic
        }

    def end(self) -> int:
        """How many messages the topic has."""
        found = self.server.get(f"/topics/{self.topic}")["partition_offsets"].values()
        return sum(int(each["next_offset"]) for each in found)

    @contextlib.contextmanager
    def dropped_receive(self, count: int = 10) -> Iterator[None]:
        """A receive whose client leaves when the block ends, without having read an answer."""
        body = {"group": self.group, "max_messages": count, "wait": "20s", "consumer": "dropped"}
        content = msgspec.json.encode(body)
        link = socket.create_connection((self.server.host, self.server.port))
        head = (
            f"POST /queues/{self.topic}/receive HTTP/1.1\r\nhost: {self.server.host}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        link.sendall(head.encode() + content)
        try:
            yield
        finally:
            link.close()


def values(messages: list[dict[str, Any]]) -> list[str]:
    return [each["value"] for each in messages]

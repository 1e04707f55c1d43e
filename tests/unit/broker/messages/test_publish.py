"""A publish is answered in time, and what was written stays."""

import asyncio

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.model.errors import TimedOut
from goqueue.server.http.errors import refusal
from tests.unit.broker.storage.test_commit_timeouts import StuckDisk, elapsed, stuck_broker


def test_a_publish_is_answered_within_the_servers_time():
    async def story(broker: Broker, disk: StuckDisk) -> None:
        messages = Messages(broker)
        disk.stick()
        start = asyncio.get_running_loop().time()
        (late,) = await messages.publish("t", [OutgoingMessage(b"m")], idempotency_key="k")
        assert isinstance(late, TimedOut)
        assert 2.0 <= elapsed(start) < 2.2
        answer = refusal(late)
        assert answer.status_code == 504
        assert answer.headers["Retry-After"] == "1"
        disk.free()
        (again,) = await messages.publish("t", [OutgoingMessage(b"m")], idempotency_key="k")
        assert isinstance(again, Published)
        assert again.is_repeat, "it was written the first time"

    stuck_broker(story)

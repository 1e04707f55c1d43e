"""A publish in a transaction is answered in time."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.model.errors import TimedOut
from tests.unit.broker.storage.test_commit_timeouts import StuckDisk, stuck_broker


def test_a_publish_in_a_transaction_is_answered_too():
    async def story(broker: Broker, disk: StuckDisk) -> None:
        who = await broker.transactions.init("writer", timeout_ms=60_000)
        await broker.transactions.begin("writer", who)
        disk.stick()
        with pytest.raises(TimedOut):
            await TransactionMessages(broker).publish("writer", who, "t", OutgoingMessage(b"m"))

    stuck_broker(story)

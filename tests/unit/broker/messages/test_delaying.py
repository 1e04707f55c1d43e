"""Publishing delayed messages: outcomes say what became of each."""

from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.model.errors import InvalidRecord
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, play, values


def test_each_message_of_a_request_has_its_own_outcome():
    async def story(bench: Bench) -> None:
        messages = [
            OutgoingMessage(b"now"),
            delayed(b"late", 1000),
            OutgoingMessage(b"bad", headers=(("gq-deliver-at", b"soon"),)),
            OutgoingMessage(b"past", headers=(("gq-deliver-at", b"5"),)),
        ]
        now, late, bad, past = await bench.messages.publish(TOPIC, messages)
        assert isinstance(now, Published)
        assert now.deliver_at is None
        assert isinstance(late, Published)
        assert late.is_delayed
        assert isinstance(bad, InvalidRecord)
        assert isinstance(past, Published)
        assert (past.is_delayed, past.deliver_at) == (False, 5)
        assert await values(bench.broker) == [b"now", b"past"]

    play(story)


def test_a_repetition_under_an_idempotency_key_is_not_delayed_again():
    async def story(bench: Bench) -> None:
        messages = [delayed(b"late", 1000, partition=0), OutgoingMessage(b"now", partition=0)]
        first = await bench.messages.publish(TOPIC, messages, idempotency_key="k")
        await bench.sleep(0.5)
        again = await bench.messages.publish(TOPIC, messages, idempotency_key="k")
        assert [each.offset for each in first] == [each.offset for each in again]  # type: ignore[union-attr]
        assert all(isinstance(each, Published) and each.is_repeat for each in again)
        await bench.sleep(3)
        assert await values(bench.broker) == [b"now", b"late"]

    play(story)

"""Delays as listeners and metrics see them."""

from goqueue.model.ids import Timestamp
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, play


def test_lateness_is_observed_when_a_message_is_committed():
    async def story(bench: Bench) -> None:
        delays = bench.broker.delays
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 60_000))
        await bench.sleep(2)
        assert delays.lateness.count == 1
        assert delays.lateness.seconds < 0.1
        assert len(delays.hosts) == 1

    play(story)


def test_a_queue_sees_priority_and_time_to_live_from_the_delivery_on():
    async def story(bench: Bench) -> None:
        message = delayed(b"x", 5000)
        headers = (*message.headers, ("gq-ttl-ms", b"2000"), ("gq-priority", b"high"))
        (published,) = await bench.publish(TOPIC, type(message)(b"x", headers=headers, key=b"k"))
        assert published.is_delayed
        assert published.deliver_at == Timestamp(published.timestamp + 5000)
        await bench.sleep(5.5)
        (received,) = await bench.receive()
        assert (received.record.key, received.record.value) == (b"k", b"x")
        assert ("gq-priority", b"high") in received.record.headers

    play(story)

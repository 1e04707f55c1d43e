"""A time to live counts from when a message was due: what is later than that has expired."""

import pytest

from goqueue.broker.delays.time_to_live import is_outdated_body
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model import bodies
from goqueue.model import records as record_codec
from goqueue.model.record import Headers, Record
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests.unit.broker.delays.delay_world import TOPIC, line_of, read, values
from tests.unit.broker.queue_world import running

TTL = (("gq-delay-ms", b"1000"), ("gq-ttl-ms", b"60000"))
PLAIN = (("gq-delay-ms", b"1500"),)


@pytest.mark.parametrize(
    ("headers", "ttl_ms", "expected"),
    [
        ((), -1, False),
        ((), 500, True),
        ((), 501, False),
        ((("gq-ttl-ms", b"500"),), -1, True),
        ((("gq-ttl-ms", b"501"),), 100, False),
    ],
)
def test_the_messages_own_time_to_live_or_the_topics(headers: Headers, ttl_ms: int, expected: bool):
    block = record_codec.encode_records([Record(0, 0, b"k", b"v", headers)], 0)
    body = bodies.take_bodies(block, 1, 0, frozenset((0,)))[0]
    assert is_outdated_body(body, due=1000, ttl_ms=ttl_ms, now=1500) is expected


@pytest.mark.parametrize("policy", ["drop", "dead_letter"])
def test_a_message_that_expired_while_nobody_could_deliver_it(policy: str):
    async def first(environment: Environment) -> None:
        async with running(environment) as bench:
            settings = {"goqueue.expired": policy}
            await bench.broker.create_topic(TOPIC, partitions=1, settings=settings)
            late = [OutgoingMessage(b"short", headers=TTL), OutgoingMessage(b"long", headers=PLAIN)]
            await bench.publish(TOPIC, *late)

    async def second(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.sleep(1)
            machine, admin = line_of(bench.broker).timers.ahead, bench.broker.delays.admin
            if policy == "drop":
                assert await values(bench.broker) == [b"long"]
                assert (machine.expired_total, machine.delivered_total) == (1, 1)
                assert (await admin.find(TOPIC, 0, 0)).state == "expired"
                assert (await admin.counts())[0][TOPIC].expired == 1
                return
            short, long = await read(bench.broker)
            assert (short.value, long.value) == (b"short", b"long")
            now = bench.broker.environment.clock.now()
            assert now - short.timestamp > 3_500_000  # queues see that it has expired
            assert now - long.timestamp < 5_000
            assert machine.expired_total == 0

    with World(seed=1) as world:
        world.run(first(world.environment("a")))
        world.run_for(3600)
        world.run(second(world.environment("a")))

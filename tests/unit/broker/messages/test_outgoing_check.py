"""Each message of a request is judged for itself."""

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import Outcome, OutgoingMessage, Published
from goqueue.broker.messages.outgoing_check import OutgoingCheck
from goqueue.model.config import Config
from goqueue.schemas import SchemaText, SchemaType
from goqueue.schemas.errors import SchemaViolation
from goqueue.testing.sim.world import World

OBJECT = SchemaText('{"type":"object"}', SchemaType.JSON)
MESSAGES = [OutgoingMessage(b"{}"), OutgoingMessage(b"[]"), OutgoingMessage(b"5")]


def test_invalid_messages_are_refused_or_put_aside():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", settings={"goqueue.schema.validation": "full"})
            await broker.schemas.register("t-value", OBJECT)
            check, partition = OutgoingCheck(broker), await broker.partition("t", 0)
            outcomes: list[Outcome | None] = [None] * 3
            assert await check.check(partition, [0, 1, 2], MESSAGES, outcomes, None) == [0]
            assert outcomes[0] is None
            assert all(isinstance(each, SchemaViolation) for each in outcomes[1:])
            await broker.change_settings("t", {"goqueue.schema.invalid": "dead_letter"})
            for _ in range(2):  # under a key they are written once
                outcomes = [None] * 3
                assert await check.check(partition, [0, 2, 1], MESSAGES, outcomes, "key") == [0]
                offsets = [each.offset for each in outcomes if isinstance(each, Published)]
                assert offsets == [0, 1]
            last = outcomes[2]
            assert isinstance(last, Published)
            assert last.invalid is not None
            assert (last.invalid.topic, last.invalid.schema_id) == ("t.dlq", 1)

    with World(seed=1) as world:
        world.run(story(world))

from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import TRACES_TOPIC
from goqueue.broker.traces.history import EVENTS_MAX, TraceHistory
from goqueue.model.config import Config, StorageConfig, TracesConfig
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.trace.events import Place, Step
from goqueue.trace.lookup import Lookup
from goqueue.trace.selection import TraceQuery
from tests.unit.broker.traces.trace_world import Bench, ask_as, journey, names, play

ALL = Lookup(query=TraceQuery())


def test_events_are_written_in_the_background_and_found_again():
    async def story(bench: Bench) -> None:
        history = bench.broker.trace_history
        assert not await bench.broker.partitions.has_log(TRACES_TOPIC)  # nothing to write yet
        await bench.publish("jobs", b"a", b"b")
        await bench.publish("jobs", b"c")
        await bench.sleep(1)
        found = await history.find(ALL)
        assert [(each.first, each.last) for each in found.events] == [(0, 1), (2, 2)]
        topic_id = bench.broker.topic("jobs").topic_id.bytes
        found = await history.find(Lookup(places=[Place(topic_id, 0, 1)]))
        assert [each.first for each in found.events] == [0]
        assert found.is_whole
        assert history.written_total == 2
        assert not bench.broker.recorder.pending

    play(story)


def test_a_restart_loses_nothing_that_was_recorded():
    async def first(environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            bench = Bench(broker)
            await broker.create_topic("jobs", partitions=1)
            ask_as("shop")
            await bench.publish("jobs", b"a")
            await bench.ack(await bench.receive())

    async def second(environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            assert not broker.recorder.ring
            found = await journey(Bench(broker), 0)
            assert names(found) == [
                "publish.received",
                "publish.validated",
                "publish.persisted",
                "consume.fetched",
                "consume.acked",
            ]

    with World(0) as world:
        world.run(first(world.environment("a")))
        world.run(second(world.environment("a")))


def test_without_a_history_the_ring_tells():
    config = Config(data_dir="/data", traces=TracesConfig(history=False))

    async def main(environment: Environment) -> None:
        async with Broker(environment, config).running() as broker:
            bench = Bench(broker)
            await broker.create_topic("jobs", partitions=1)
            await bench.publish("jobs", b"a")
            await bench.sleep(2)
            assert not await broker.partitions.has_log(TRACES_TOPIC)
            assert names(await journey(bench, 0)) == ["publish.persisted"]

    with World(0) as world:
        world.run(main(world.environment("a")))


def test_an_answer_has_the_newest_events_and_says_that_there_are_more():
    async def story(bench: Bench) -> None:
        tracer = (await bench.broker.partition("jobs", 0)).tracer
        assert tracer is not None
        for offset in range(EVENTS_MAX + 10):
            tracer.note_fetched(offset, offset)
        await bench.broker.trace_history.flush()
        found = await bench.broker.trace_history.find(ALL)
        assert (len(found.events), found.is_whole) == (EVENTS_MAX, False)
        assert found.events[-1].first == EVENTS_MAX + 9

    play(story)


def test_exporters_are_told_of_each_event_once():
    async def story(bench: Bench) -> None:
        told: list[int] = []
        history: TraceHistory = bench.broker.trace_history
        history.on_events.append(lambda events: told.extend(each.number for each in events))
        await bench.publish("jobs", b"a")
        await bench.sleep(1)
        await bench.publish("jobs", b"b")
        await bench.sleep(2)
        assert told == sorted(set(told))
        assert len(told) == 2

    play(story)


def test_what_a_message_brings_is_found_by_its_trace_id():
    async def story(bench: Bench) -> None:
        from goqueue.broker.messages.outgoing import OutgoingMessage

        ask_as("shop")
        trace = "4b" * 16
        parent = f"00-{trace}-00f067aa0ba902b7-01".encode()
        await bench.publish("jobs", OutgoingMessage(b"x", headers=(("traceparent", parent),)))
        await bench.sleep(1)
        found = await bench.broker.trace_history.find(Lookup(trace_id=trace))
        assert [(each.step, each.first) for each in found.events] == [(Step.TRACE_LINKED, 0)]

    play(story)


def test_old_events_go_by_size():
    config = Config(
        data_dir="/data",
        storage=StorageConfig(retention_check_ms=1_000),
        traces=TracesConfig(retention_bytes=1),
    )

    async def main(environment: Environment) -> None:
        async with Broker(environment, config).running() as broker:
            bench = Bench(broker)
            await broker.create_topic("jobs", partitions=1)
            tracer = (await broker.partition("jobs", 0)).tracer
            assert tracer is not None
            for round in range(40):
                for offset in range(10_000):
                    tracer.note_fetched(round + offset * 7919 % 999_983, offset * 31 + 999_983)
                await bench.sleep(1)
            opened = broker.partitions.find_open(TRACES_TOPIC, 0)
            assert opened is not None
            assert opened.log.start_offset > 0

    with World(0) as world:
        world.run(main(world.environment("a")))

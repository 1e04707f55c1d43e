from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.traces.sources import MessageSources
from goqueue.queue import QueueSettings
from goqueue.trace.events import Place, Space
from tests import queue_verbs
from tests.unit.broker.delays.delay_world import delayed
from tests.unit.broker.traces.trace_world import Bench, play


def place(bench: Bench, topic: str, offset: int, space: Space = Space.DATA) -> Place:
    return Place(bench.broker.topic(topic).topic_id.bytes, 0, offset, space)


def test_the_log_tells_of_traceparent_and_time():
    async def story(bench: Bench) -> None:
        sources = MessageSources(bench.broker)
        parent = ("traceparent", f"00-{'4b' * 16}-00f067aa0ba902b7-01".encode())
        await bench.publish("jobs", OutgoingMessage(b"x", headers=(parent,)), b"y")
        found = await sources.find(place(bench, "jobs", 0))
        assert found is not None
        assert found.parent is not None
        assert found.parent.trace_id == "4b" * 16
        (step,) = found.missing_steps([])
        assert (step.event, step.is_derived, step.node) == ("publish.persisted", True, -1)
        assert await sources.find(place(bench, "jobs", 9)) is None
        assert await sources.find(Place(bytes(16), 0, 0)) is None

    play(story)


def test_dead_letters_and_delayed_messages_tell_where_they_come_from():
    async def story(bench: Bench) -> None:
        sources = MessageSources(bench.broker)
        await bench.publish("jobs", delayed(b"x", 1000))
        taken = await bench.receive(wait_ms=60_000)
        await queue_verbs.reject(bench.queues, [taken[0].receipt], reason="broken")
        await bench.sleep(5)
        found = await sources.find(place(bench, "jobs", 0))
        assert found is not None
        assert found.origin == place(bench, "jobs", 0, Space.DELAYS)
        dead = await sources.find(place(bench, "jobs.dlq", 0))
        assert dead is not None
        assert dead.origin == place(bench, "jobs", 0)
        routed = dead.missing_steps([])[1]
        assert (routed.event, routed.error, routed.topic) == ("dlq.routed", "broken", "jobs")

    play(story, settings=QueueSettings())

import pytest

from goqueue.broker.traces.service import Traces
from goqueue.model.errors import PartitionNotFound, TopicNotFound
from goqueue.trace.errors import TraceNotFound
from goqueue.trace.selection import TraceQuery
from tests.unit.broker.queue_world import numbered
from tests.unit.broker.traces.trace_world import Bench, ask_as, names, play


def test_a_message_that_never_was_is_not_found():
    async def story(bench: Bench) -> None:
        traces = Traces(bench.broker)
        with pytest.raises(TraceNotFound, match="nothing is known of message 5 in jobs-0"):
            await traces.journey("jobs", 0, 5)
        with pytest.raises(TraceNotFound, match="no message with trace id"):
            await traces.find("4b" * 16)
        with pytest.raises(PartitionNotFound):
            await traces.journey("jobs", 7, 0)
        with pytest.raises(TopicNotFound):
            await traces.journey("nothing", 0, 0)

    play(story)


def test_a_derived_id_finds_its_message():
    async def story(bench: Bench) -> None:
        traces = Traces(bench.broker)
        await bench.publish("jobs", *numbered(5))
        found = await traces.journey("jobs", 0, 3)
        again = await traces.find(found.journey.trace_id)
        assert again == found

    play(story)


def test_the_newest_are_told_from_the_ring_or_else_the_history():
    async def story(bench: Bench) -> None:
        traces = Traces(bench.broker)
        await bench.publish("jobs", *numbered(30))
        await bench.sleep(1)
        found = await traces.recent(TraceQuery(limit=3))
        assert [each.offset for each in found.selection.journeys] == [29, 28, 27]
        bench.broker.recorder.ring.clear()  # as after a restart
        found = await traces.recent(TraceQuery(limit=3))
        assert [each.offset for each in found.selection.journeys] == [29, 28, 27]
        (figures,), missing = await traces.figures()
        assert (figures.events_in_buffer, figures.written_total, missing) == (0, 1, [])

    play(story)


def test_keys_are_looked_up_in_the_log():
    async def story(bench: Bench) -> None:
        from goqueue.broker.messages.outgoing import OutgoingMessage

        traces = Traces(bench.broker)
        ask_as("shop")
        await bench.publish(
            "jobs", OutgoingMessage(b"1", key=b"k"), b"2", OutgoingMessage(b"3", key=b"k")
        )
        found = await traces.search_key(TraceQuery(topic="jobs", limit=9), b"k")
        assert [each.offset for each in found.selection.journeys] == [2, 0]
        assert names(found.selection.journeys[0])[-1] == "publish.persisted"
        found = await traces.search_key(TraceQuery(topic="jobs", limit=9), b"nobody")
        assert found.selection.journeys == []

    play(story)

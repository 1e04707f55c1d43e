from goqueue.broker.cluster.coordinator_topics import TRACES_TOPIC
from goqueue.broker.traces.topic import create_traces_topic, settings_of
from goqueue.model.config import TracesConfig
from goqueue.model.settings import topic_settings
from tests.unit.broker.traces.trace_world import Bench, play


def test_retention_is_by_time_and_size_with_segments_to_match():
    found = topic_settings(settings_of(TracesConfig(retention_ms=60_000, retention_bytes=8 << 20)))
    assert (found.retention_ms, found.retention_bytes) == (60_000, 8 << 20)
    assert (found.segment_ms, found.segment_bytes) == (15_000, 2 << 20)
    assert found.flush == "interval"  # nothing is synced for it
    endless = topic_settings(settings_of(TracesConfig(retention_ms=-1, retention_bytes=-1)))
    assert (endless.retention_ms, endless.retention_bytes) == (-1, -1)


def test_it_is_created_once_and_hidden():
    async def story(bench: Bench) -> None:
        broker = bench.broker
        first = await create_traces_topic(broker)
        assert (await create_traces_topic(broker)).topic_id == first.topic_id
        assert TRACES_TOPIC not in [topic.name for topic in broker.topics()]
        assert TRACES_TOPIC in [topic.name for topic in broker.topics(internal=True)]

    play(story)

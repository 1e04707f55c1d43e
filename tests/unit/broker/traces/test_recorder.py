from uuid import UUID

import msgspec

from goqueue.broker.traces.recorder import PENDING_MAX, PartitionTracer, TraceRecorder
from goqueue.cluster.replication import Follower, Leader
from goqueue.log import Appended
from goqueue.model import batch as batches
from goqueue.model.config import TracesConfig
from goqueue.model.errors import BatchTooLarge
from goqueue.model.ids import Epoch, NodeId, Offset, Timestamp, TopicId
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.testing.sim.clock import SimClock
from goqueue.testing.sim.world import World
from goqueue.trace.events import Step
from tests.unit.broker.traces.trace_world import ask_as

ALONE = Leader.alone(NodeId(1), Epoch(0))
BATCH = batches.encode([Record(0, 0, None, b"x")])
TOPIC_ID = TopicId(UUID(int=7))


def tracing(**config: object) -> TraceRecorder:
    world = World(0)
    return TraceRecorder(world.environment("a").clock, 1, TracesConfig(**config))  # type: ignore[arg-type]


def tracer_of(recorder: TraceRecorder, **settings: str) -> PartitionTracer:
    found = recorder.tracer("jobs", TOPIC_ID, 0, topic_settings(settings))
    assert found is not None
    return found


def append(tracer: PartitionTracer, first: int, last: int) -> None:
    tracer.note_appended(Appended(Offset(first), Offset(last), Timestamp(-1)), BATCH)


def test_a_publish_is_one_event_whatever_its_size():
    recorder = tracing()
    tracer = tracer_of(recorder)
    ask_as("shop")
    append(tracer, 0, 9_999)
    (event,) = recorder.ring
    assert (event.step, event.first, event.last, event.client) == (0, 0, 9_999, "shop")
    assert event.duration_us == -1
    tracer.note_committed(Offset(9_999), ALONE)  # not all of it
    assert event.duration_us == -1
    tracer.note_committed(Offset(10_000), ALONE)
    assert event.duration_us >= 0
    assert len(recorder.ring) == 1


def test_a_commit_after_the_history_took_the_publish_is_an_event_of_its_own():
    recorder = tracing()
    tracer = tracer_of(recorder)
    ask_as("shop")
    append(tracer, 0, 4)
    assert len(recorder.take_pending()) == 1
    isr = msgspec.structs.replace(ALONE, isr=frozenset({NodeId(1), NodeId(3)}))
    tracer.note_committed(Offset(5), isr)
    (event,) = recorder.take_pending()
    assert (event.step, event.last, event.client) == (Step.PUBLISH_PERSISTED, 4, "shop")
    assert event.detail == "on nodes 1, 3"


def test_what_the_broker_moves_itself_was_received_elsewhere():
    recorder = tracing()
    tracer = tracer_of(recorder)
    append(tracer, 0, 4)
    assert not recorder.ring
    tracer.note_committed(Offset(5), ALONE)
    assert [event.step for event in recorder.ring] == [Step.PUBLISH_PERSISTED]


def test_a_new_role_forgets_what_was_not_committed():
    recorder = tracing()
    tracer = tracer_of(recorder)
    append(tracer, 0, 4)
    tracer.note_role(Follower(NodeId(2), Epoch(1)))
    tracer.note_committed(Offset(5), ALONE)
    assert not recorder.ring
    tracer.note_role(Leader.alone(NodeId(1), Epoch(2)))
    assert [event.detail for event in recorder.ring] == ["node 1 leads, epoch 2"]


def test_topics_may_be_left_out():
    recorder = tracing()
    for settings in ({"goqueue.trace.enable": "false"}, {"goqueue.trace.sample.rate": "0"}):
        tracer = tracer_of(recorder, **settings)
        ask_as("shop")
        append(tracer, 0, 4)
        tracer.note_fetched(0, 4)
        tracer.note_refused(BatchTooLarge("no"))
    assert not recorder.ring
    assert recorder.tracer("__groups", TOPIC_ID, 0, topic_settings({})) is None
    off = tracing(enabled=False)
    assert off.tracer("jobs", TOPIC_ID, 0, topic_settings({})) is None


def test_a_message_is_sampled_at_all_of_its_steps_or_at_none():
    tracer = tracer_of(tracing(), **{"goqueue.trace.sample.rate": "0.1"})
    blocks = [tracer.is_sampled(first, first + 255) for first in range(0, 256 * 4000, 256)]
    assert 0.07 < sum(blocks) / len(blocks) < 0.13
    for block, is_sampled in enumerate(blocks[:100]):
        offsets = range(block * 256, block * 256 + 256, 51)
        assert {tracer.is_sampled(each, each) for each in offsets} == {is_sampled}
    limited = tracer_of(tracing(sample_rate=0.5), **{"goqueue.trace.sample.rate": "1"})
    assert not all(limited.is_sampled(at, at) for at in range(0, 25_600, 256))


def test_memory_is_bounded():
    recorder = tracing(buffer_events=100)
    tracer = tracer_of(recorder)
    for offset in range(PENDING_MAX + 50):
        tracer.note_fetched(offset, offset)
    assert len(recorder.ring) == 100
    assert (len(recorder.pending), recorder.dropped_total) == (PENDING_MAX, 50)
    assert recorder.ring[-1].first == PENDING_MAX + 49


def test_times_follow_the_wall_clock():
    recorder = tracing()
    clock = recorder._clock
    assert isinstance(clock, SimClock)
    assert abs(recorder.now_us() - clock.now() * 1000) <= 1000
    assert recorder.wall_us(clock.instant()) == recorder.now_us()

"""What the leader remembers of failures."""

from goqueue.broker import Broker
from goqueue.broker.schedules.term import RETRY_MS_MAX
from goqueue.model.errors import DiskFull
from goqueue.model.ids import Timestamp
from goqueue.schedules import Timing
from tests.unit.broker.brokers import NOW, play
from tests.unit.broker.schedules.scheduling import TOPIC, definition


def test_failures_are_tried_again_less_and_less_often():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition(timing=Timing("0 0 1 1 *")))
        term, waits = broker.schedules.publisher.term, list[int]()
        for _ in range(7):
            term.note_failure("s", DiskFull("full"), NOW)
            waits.append(term.failures["s"].retry_at - NOW)
        assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, RETRY_MS_MAX, RETRY_MS_MAX]
        assert (term.failures["s"].attempts, term.failures["s"].since) == (7, NOW)
        term.retry("s")
        assert term.failures["s"].retry_at == 0
        term.note_success("s")
        assert term.failures == {}

    play(story)


def test_what_is_under_way_is_not_due_a_second_time():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        created = await broker.schedules.create(definition(timing=Timing("0 0 1 1 *")))
        assert created.next_at is not None
        term = broker.schedules.publisher.term
        assert term.due.take(created.next_at, 1) == ["s"]
        term.take_up("s")
        term.arm("s")
        assert term.due.next_at is None
        term.release("s")
        assert term.due.next_at == created.next_at

    play(story)


def test_of_a_deleted_schedule_nothing_is_left():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition(timing=Timing("0 0 1 1 *")))
        term = broker.schedules.publisher.term
        term.note_failure("s", DiskFull("full"), Timestamp(0))
        term.unwritten.add("s")
        await broker.schedules.delete("s")
        assert (len(term.due), term.failures, term.unwritten) == (0, {}, set())

    play(story)

from goqueue.queue import QueueSettings
from goqueue.trace.events import Step
from tests import queue_verbs
from tests.unit.broker.queue_world import numbered
from tests.unit.broker.traces.trace_world import Bench, journey, names, play, ring


def test_a_run_of_acks_is_one_event():
    async def story(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(100))
        taken = await bench.receive(max_messages=100)
        await bench.ack(taken[:60] + taken[80:])
        events = [each for each in ring(bench) if each.step in (Step.FETCHED, Step.ACKED)]
        assert [(each.step, each.first, each.last) for each in events] == [
            (Step.FETCHED, 0, 99),
            (Step.ACKED, 0, 59),
            (Step.ACKED, 80, 99),
        ]
        assert {each.member for each in events} == {"ann"}

    play(story)


def test_what_ends_a_delivery_is_told_with_its_reason():
    async def story(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        taken = await bench.receive(max_messages=3)
        receipts = [each.receipt for each in taken]
        await queue_verbs.extend(bench.queues, receipts[:1], visibility_ms=60_000)
        await queue_verbs.nack(bench.queues, receipts[1:2], reason="busy")
        await queue_verbs.reject(bench.queues, receipts[2:], reason="broken")
        await bench.sleep(100)
        assert names(await journey(bench, 0))[1:] == [
            "consume.fetched",
            "visibility.extended",
            "visibility.timeout",
            "retry.scheduled",
        ]
        second = await journey(bench, 1)
        assert names(second)[1:] == ["consume.fetched", "consume.nacked", "retry.scheduled"]
        assert second.steps[2].error == "busy"
        third = await journey(bench, 2)
        assert names(third)[1:3] == ["consume.fetched", "consume.rejected"]
        assert "dlq.routed" in names(third)
        assert (third.status, third.steps[2].error) == ("error", "broken")

    play(story)


def test_the_last_attempt_and_the_dead_letters_place_are_told():
    async def story(bench: Bench) -> None:
        await bench.publish("jobs", b"x")
        for _ in range(2):
            taken = await bench.receive(wait_ms=60_000)
            await queue_verbs.nack(bench.queues, [each.receipt for each in taken], reason="no")
        await bench.sleep(5)
        found = await journey(bench, 0)
        routed = next(step for step in found.steps if step.event == "dlq.routed")
        place = routed.link_topic, routed.link_partition, routed.link_offset
        assert place == ("jobs.dlq", 0, 0)
        attempts = [step.attempt for step in found.steps if step.event == "consume.nacked"]
        assert attempts == [1, 2]
        assert names(await journey(bench, 0, "jobs.dlq")) == names(found)

    play(story, settings=QueueSettings(max_failures=2))

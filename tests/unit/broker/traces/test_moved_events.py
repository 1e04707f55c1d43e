from goqueue.broker.traces.moved_events import note_ready
from goqueue.trace.events import Space, Step
from tests.unit.broker.delays.delay_world import delayed
from tests.unit.broker.traces.trace_world import Bench, ask_as, journey, names, play, ring


def test_delayed_messages_are_linked_run_by_run():
    async def story(bench: Bench) -> None:
        await bench.publish(
            "jobs", delayed(b"a", 2000), delayed(b"b", 1000), delayed(b"c", 1000), b"now"
        )
        await bench.sleep(5)
        ready = [each for each in ring(bench) if each.step == Step.DELAY_READY]
        links = [(each.first, each.last, each.link_first) for each in ready]
        assert links == [(1, 2, 1), (0, 0, 3)]
        assert {each.space for each in ready} == {Space.DELAYS}
        scheduled = [each for each in ring(bench) if each.step == Step.DELAY_SCHEDULED]
        assert [(each.first, each.last) for each in scheduled] == [(0, 0), (1, 2)]

    play(story)


def test_a_delivered_message_tells_where_it_waited():
    async def story(bench: Bench) -> None:
        ask_as("shop")
        await bench.publish("jobs", delayed(b"a", 1000))
        await bench.sleep(5)
        found = await journey(bench, 0)
        assert names(found) == [
            "publish.received",
            "publish.validated",
            "publish.persisted",
            "delay.scheduled",
            "publish.persisted",
            "delay.ready",
        ]
        assert [step.space for step in found.steps] == [1, 1, 1, 1, 0, 1]

    play(story)


def test_a_cancelled_message_is_told():
    async def story(bench: Bench) -> None:
        await bench.publish("jobs", delayed(b"a", 60_000))
        await bench.broker.delays.admin.cancel("jobs", 0, 0)
        assert ring(bench)[-1].step == Step.DELAY_CANCELLED

    play(story)


def test_many_delays_of_one_batch_share_an_event():
    async def story(bench: Bench) -> None:
        some = [delayed(b"%d" % number, 1000 + (number * 7) % 100) for number in range(100)]
        await bench.publish("jobs", *some)
        await bench.sleep(5)
        (scheduled,) = [each for each in ring(bench) if each.step == Step.DELAY_SCHEDULED]
        assert (scheduled.first, scheduled.last) == (0, 99)
        assert {"delay.scheduled", "delay.ready"} <= set(names(await journey(bench, 42)))
        before = len(ring(bench))
        data = bench.broker.partitions.find_open("jobs", 0)
        assert data is not None
        note_ready(data.tracer, range(198, 98, -1), 199)  # the other way round
        (ready,) = ring(bench)[before:]
        assert (ready.first, ready.last, ready.space) == (100, 199, Space.DATA)

    play(story)

"""Which messages of a lane one consumer gets, and which are passed over."""

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.queues.lane_selection import LaneSelection, _cut_to_size
from goqueue.broker.queues.prefetch import Budget, Moment
from goqueue.model.record import Record
from goqueue.queue import QueueSettings
from goqueue.queue.delivery import Selection
from goqueue.queue.lanes import NORMAL
from tests.unit.broker.queue_world import Bench, numbered, play
from tests.unit.broker.queues.test_prefetch import buffer_of


async def select(
    bench: Bench,
    settings: QueueSettings,
    *,
    share: int = 100,
    count: int = 100,
    size: int = 100_000,
) -> tuple[Selection, int]:
    """A choice from all that is in `jobs`, on a buffer of its own."""
    clock = bench.broker.environment.clock
    buffer = await buffer_of(bench)
    selection = Selection(buffer.state)
    chosen = await LaneSelection(
        buffer,
        NORMAL,
        share,
        selection,
        Budget(count, size),
        settings,
        Moment(clock.steady(), clock.now()),
    ).run()
    return selection, chosen


def keyed(value: bytes, key: bytes) -> OutgoingMessage:
    return OutgoingMessage(value, key=key)


def tenant(value: bytes, name: bytes) -> OutgoingMessage:
    return OutgoingMessage(value, headers=(("tenant", name),))


def test_a_lane_gives_its_share_and_no_more():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(10))
        _, chosen = await select(bench, QueueSettings(), share=3)
        assert chosen == 3
        _, chosen = await select(bench, QueueSettings(), share=30, count=4)
        assert chosen == 4

    play(scenario)


def test_a_choice_is_bounded_in_bytes_and_never_empty():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *([b"x" * 100] * 5))
        for size, expected in ((1, 1), (100, 1), (250, 2), (1_000, 5)):
            _, chosen = await select(bench, QueueSettings(), size=size)
            assert chosen == expected

    play(scenario)


def test_a_message_waits_for_the_one_before_it_of_its_key():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", keyed(b"a1", b"a"), keyed(b"a2", b"a"), keyed(b"b1", b"b"))
        selection, chosen = await select(bench, QueueSettings(ordering="key"))
        assert chosen == 2
        assert [offset for offset, *_ in selection.deferred] == [1]

    play(scenario)


def test_so_many_messages_are_passed_over_for_their_key_and_no_more():
    async def scenario(bench: Bench) -> None:
        same = [keyed(b"%d" % number, b"a") for number in range(5)]
        await bench.publish("jobs", *same, keyed(b"b1", b"b"))
        selection, chosen = await select(bench, QueueSettings(ordering="key", key_window=3))
        assert chosen == 1, "the window is full before the other key is seen"
        assert len(selection.deferred) == 3

    play(scenario)


def test_what_is_too_old_is_not_handed_out():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"old")
        await bench.sleep(2)
        await bench.publish("jobs", b"new")
        selection, chosen = await select(bench, QueueSettings(ttl_ms=1_000))
        assert chosen == 1
        assert list(selection.outdated) == [0]
        assert not selection.drops
        selection, _ = await select(bench, QueueSettings(ttl_ms=1_000, expired="drop"))
        assert selection.drops

    play(scenario)


def test_tenants_take_turns_and_the_others_are_passed_over():
    async def scenario(bench: Bench) -> None:
        noisy = [tenant(b"n%d" % number, b"noisy") for number in range(4)]
        await bench.publish("jobs", *noisy, tenant(b"q", b"quiet"))
        selection, chosen = await select(bench, QueueSettings(fairness="tenant"), count=2)
        assert chosen == 2
        assert [offset for offset, _ in selection.passed] == [1, 2, 3]

    play(scenario)


def test_records_are_cut_to_a_size_and_the_first_is_always_there():
    records = [Record(offset, 0, None, b"x" * 10) for offset in range(3)]
    assert [len(_cut_to_size(records, size)) for size in (0, 9, 10, 19, 20, 30, 99)] == [
        *(1, 1, 1, 1, 2),
        *(3, 3),
    ]

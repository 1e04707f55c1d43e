"""The queue of what is due: as a dictionary that is looked through, but without looking."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.schedules import DueQueue

NAMES = st.sampled_from("abcdef")
STEPS = st.lists(
    st.tuples(st.just("set"), NAMES, st.none() | st.integers(0, 50))
    | st.tuples(st.just("take"), st.integers(0, 60), st.integers(1, 4))
)


@given(STEPS)
def test_it_gives_what_is_due_in_order(steps: list[tuple[str, str | int, int | None]]):
    queue, plain = DueQueue(), dict[str, int]()
    for step, first, second in steps:
        if step == "set":
            name = str(first)
            queue.set(name, None if second is None else Timestamp(second))
            plain.pop(name, None)
            if second is not None:
                plain[name] = second
        else:
            now, count = int(first), second or 1
            due = sorted((at, name) for name, at in plain.items() if at <= now)[:count]
            assert queue.take(Timestamp(now), count) == [name for _, name in due]
            for _, name in due:
                del plain[name]
        assert queue.next_at == min(plain.values(), default=None)
        assert len(queue) == len(plain)


def test_what_is_set_again_and_again_takes_no_more_room():
    queue = DueQueue()
    for time in range(100_000):
        queue.set(f"s{time % 10}", Timestamp(time))
    assert len(queue._heap) < 2_000
    assert queue.next_at == 99_990

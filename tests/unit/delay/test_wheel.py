"""The timer wheel against a sorted list, with a clock that jumps both ways."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.delay import wheel as wheels
from goqueue.delay.wheel import TICK_MS, TimerWheel
from goqueue.model.ids import Timestamp

START = Timestamp(1_800_000_000_000)
DAY_MS = 86_400_000

delays = st.one_of(
    st.integers(-5_000, 30),
    st.integers(0, 6_000),
    st.integers(0, 10_000_000),
    st.integers(0, 500 * DAY_MS),
)
moves = st.one_of(
    st.integers(0, 40),
    st.integers(0, 5_000),
    st.integers(0, 20_000_000),
    st.integers(-4_000_000, 0),
    st.just(9 * DAY_MS),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), delays),
        st.tuples(st.just("add many"), st.lists(delays, max_size=12)),
        st.tuples(st.just("remove"), st.integers(0, 200)),
        st.tuples(st.just("advance"), moves),
    ),
    max_size=60,
)


class Places:
    """A store in memory; what is released must not be read again."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.serial = 0

    def store(self, data: bytes) -> int | None:
        self.serial += 1
        if self.serial % 5 == 0:
            return None  # a full disk
        self.kept[self.serial] = data
        return self.serial

    def load(self, place: int) -> bytes:
        return self.kept[place]

    def release(self, place: int) -> None:
        del self.kept[place]


def take_all(wheel: TimerWheel, now: Timestamp) -> list[tuple[int, int]]:
    wheel.advance(now)
    while wheel.is_cascading:
        wheel.advance(now)
    found = []
    while some := wheel.take(now, 7):
        found += some
    return found


def entries(wheel: TimerWheel) -> list[tuple[int, int]]:
    return sorted(each for some in wheel.snapshot() for each in zip(*some, strict=True))


@settings(deadline=None, max_examples=300)
@given(steps)
def test_the_wheel_does_what_a_sorted_list_does(script: list[tuple[str, object]]) -> None:
    wheels.CHUNK_ENTRIES, wheels.CASCADE_ENTRIES = 4, 4  # type: ignore[misc] # far smaller
    try:
        store = Places()
        wheel, model, now, offset = TimerWheel(START, store), list[tuple[int, int]](), START, 0
        for verb, given_value in script:
            if verb == "add":
                assert isinstance(given_value, int)
                wheel.add(now + given_value, offset)
                model.append((now + given_value, offset))
                offset += 1
            elif verb == "add many":
                assert isinstance(given_value, list)
                dues = [now + each for each in given_value]
                wheel.add_all(dues, range(offset, offset + len(dues)))
                model += zip(dues, range(offset, offset + len(dues)), strict=True)
                offset += len(dues)
            elif verb == "remove" and model:
                assert isinstance(given_value, int)
                entry = model.pop(given_value % len(model))
                assert wheel.contains(*entry)
                assert wheel.remove(*entry)
                assert not wheel.contains(*entry)
                assert not wheel.remove(*entry)
            elif verb == "advance":
                assert isinstance(given_value, int)
                now = Timestamp(now + given_value)
                due = sorted(each for each in model if each[0] <= now)
                assert take_all(wheel, now) == due
                model = [each for each in model if each[0] > now]
                next_time = wheel.next_time()
                assert (next_time is None) == (not model)
                assert next_time is None or next_time <= min(model)[0]
            assert wheel.count == len(model)
            assert entries(wheel) == sorted(model)
        listed = [e for g in wheel.groups(now) for some in g for e in zip(*some, strict=True)]
        assert {each for each in model if each[0] > now} <= set(listed)
        far = Timestamp(now + 4000 * DAY_MS)
        assert take_all(wheel, far) == sorted(model)
        assert wheel.count == 0
        assert not store.kept
    finally:
        wheels.CHUNK_ENTRIES, wheels.CASCADE_ENTRIES = 4096, 4096  # type: ignore[misc]


def test_groups_come_in_the_order_of_time() -> None:
    wheel = TimerWheel(START)
    for offset, delay in enumerate((0, 5, 25, 3_000, 400_000, 20_000_000, 40 * DAY_MS)):
        wheel.add(START + delay, offset)
    lows = [min(due for some in group for due in some[0]) for group in wheel.groups(0)]
    assert lows == sorted(lows)


def test_what_is_due_is_exact_to_the_millisecond() -> None:
    wheel = TimerWheel(START)
    wheel.add(START + 3, 0)
    assert take_all(wheel, Timestamp(START + 2)) == []
    assert wheel.next_time() == START + 3
    assert take_all(wheel, Timestamp(START + 3)) == [(START + 3, 0)]


def test_ten_thousand_at_the_same_millisecond_go_in_order_of_publication() -> None:
    wheel = TimerWheel(START)
    for offset in range(10_000):
        wheel.add(START + 50_000, offset)
    assert [each for _, each in take_all(wheel, Timestamp(START + 50_000))] == list(range(10_000))


def test_400_days_pass_step_by_step() -> None:
    wheel, now, days = TimerWheel(START), START, 400
    wheel.add(START + days * DAY_MS, 7)
    looks = 0
    while not (found := take_all(wheel, now)):
        looks += 1
        following = wheel.next_time()
        assert following is not None
        assert following > now
        now = following
    assert found == [(START + days * DAY_MS, 7)]
    assert now == START + days * DAY_MS
    assert looks < 20


def test_a_slot_with_very_many_is_spread_before_it_is_due() -> None:
    wheel, due = TimerWheel(START), START + 5 * 3_600_000
    for offset in range(20_000):
        wheel.add(due + offset % 1000, offset)
    near = wheel.next_time()
    assert near is not None
    assert near <= due - wheels.LEAD_TICKS * TICK_MS
    wheel.advance(near)
    assert wheel.is_cascading
    assert wheel.contains(due, 0)
    assert wheel.remove(due + 1, 1)


def test_upcoming_names_what_is_due_next() -> None:
    wheel = TimerWheel(START)
    wheel.add(START + 40, 4)
    wheel.add(START + 20, 2)
    wheel.add(START + 900_000, 9)
    assert wheel.upcoming(10) == [2, 4]
    assert wheel.upcoming(1) == [2]

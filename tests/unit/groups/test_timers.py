"""Deadlines that are set, moved and taken, against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.timers import Timer, TimerKind, Timers
from goqueue.model.ids import Timestamp
from tests.unit.groups.harness import GROUP

TIMERS = [Timer(TimerKind.SESSION, GROUP, name) for name in "abc"] + [Timer(TimerKind.JOIN, GROUP)]
STEPS = st.tuples(
    st.sampled_from(["set", "set", "clear", "take"]),
    st.sampled_from(TIMERS),
    st.integers(0, 20).map(Timestamp),
)


@given(st.lists(STEPS, max_size=40))
def test_timers_are_due_when_a_dictionary_says_so(steps: list[tuple[str, Timer, Timestamp]]):
    timers, model = Timers(), dict[Timer, Timestamp]()
    for verb, timer, time in steps:
        match verb:
            case "set":
                timers.set(timer, time)
                model[timer] = time
            case "clear":
                timers.clear(timer)
                model.pop(timer, None)
            case _:
                due = sorted(at for at in model.values() if at <= time)
                assert [model.pop(each) for each in timers.take_due(time)] == due
        assert timers.next_due() == min(model.values(), default=None)
        assert len(timers) == len(model)
        assert [each in timers for each in TIMERS] == [each in model for each in TIMERS]


def test_a_session_that_is_prolonged_again_and_again_costs_one_entry():
    timers = Timers()
    for now in range(1_000):
        timers.set(TIMERS[0], Timestamp(now + 30_000))
    assert len(timers._heap) == 1
    assert timers.take_due(Timestamp(30_998)) == []
    assert timers.take_due(Timestamp(30_999)) == [TIMERS[0]]
    assert timers.next_due() is None

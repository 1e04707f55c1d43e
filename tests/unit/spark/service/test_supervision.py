"""When a pipeline is started, stopped and tried again."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.service.supervision import WAIT_MAX_S, Supervised


def start(now: float = 0.0) -> Supervised:
    found = Supervised()
    found.declare("1")
    assert found.decide(now) == "start"
    found.note_started(now)
    return found


def test_a_new_file_is_started_and_then_left_alone():
    found = start()
    assert found.state == "running"
    assert found.decide(1.0) is None


def test_each_failure_in_a_row_waits_twice_as_long_up_to_five_minutes():
    found = start()
    waits = []
    now = 0.0
    for _ in range(12):
        found.note_failed("no room", now)
        assert (found.state, found.problem) == ("retrying", "no room")
        waits.append((found.next_try or 0) - now)
        assert found.decide(now) is None
        now = found.next_try or 0
        assert found.decide(now) == "start"
        found.note_started(now)
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == WAIT_MAX_S
    assert found.restarts == 12


def test_who_ran_for_long_begins_with_a_short_wait_again():
    found = start()
    for _ in range(6):
        found.note_failed("x", 0.0)
        found.note_started(0.0)
    found.note_failed("x", 3600.0)
    assert found.next_try == 3601.0


def test_a_changed_file_is_adopted_and_a_bad_one_is_not():
    found = start()
    found.declare("2", "no SQL")
    assert found.decide(1.0) is None  # it goes on as it was
    assert (found.state, found.problem) == ("running", "no SQL")
    found.declare("3")
    assert found.decide(2.0) == "stop"
    found.note_stopped()
    assert found.decide(2.0) == "start"
    found.note_started(2.0)
    assert (found.problem, found.decide(3.0)) == (None, None)


def test_a_file_that_is_bad_from_the_beginning_waits_for_its_change():
    found = Supervised()
    found.declare("1", "no name")
    assert (found.state, found.decide(0.0)) == ("invalid", None)
    found.declare("2")
    assert found.decide(0.0) == "start"


def test_what_spark_objects_to_waits_for_a_change_or_a_restart():
    found = Supervised()
    found.declare("1")
    found.note_invalid("no such column")
    assert found.decide(1000.0) is None
    found.ask_restart()
    assert found.decide(1000.0) == "start"
    found.note_invalid("no such column")
    found.declare("2")
    assert found.decide(1000.0) == "start"


def test_what_was_stopped_stays_so_until_it_is_asked_for():
    found = start()
    found.ask_stop()
    assert found.decide(1.0) == "stop"
    found.note_stopped()
    assert found.state == "stopped"
    found.declare("2")
    assert found.decide(9.0) is None
    found.ask_restart()
    assert found.decide(9.0) == "start"


def test_what_was_stopped_before_the_service_started():
    found = Supervised(is_stopped=True)
    found.declare("1")
    assert (found.state, found.decide(0.0)) == ("stopped", None)


def test_what_has_finished_runs_again_when_it_is_asked_for_or_changed():
    found = start()
    found.note_finished()
    assert found.decide(1.0) is None
    found.declare("2")
    assert found.decide(1.0) == "start"


EVENTS = st.sampled_from(["fail", "stop", "restart", "change", "break", "finish", "invalid"])


@given(st.lists(EVENTS, max_size=30))
def test_whatever_happens_a_restart_brings_it_back(events: list[str]):
    """And it never runs while it is stopped, or a version that is not the newest sound one."""
    found = Supervised()
    found.declare("0")
    version, is_running, now = 0, False, 0.0
    for event in [*events, "restart"]:
        now += 1000.0
        if event == "fail" and is_running:
            found.note_failed("x", now)
            is_running = False
        elif event == "finish" and is_running:
            found.note_finished()
            is_running = False
        elif event == "stop":
            found.ask_stop()
        elif event == "restart":
            if is_running:
                found.note_stopped()
                is_running = False
            found.ask_restart()
        elif event == "change":
            version += 1
            found.declare(str(version))
        elif event == "break":
            found.declare("broken", "x")
        for _ in range(3):
            action = found.decide(now + 1000)
            if action == "stop":
                assert is_running
                found.note_stopped()
                is_running = False
            elif action == "start":
                assert not is_running
                if event == "invalid":
                    found.note_invalid("x")
                else:
                    found.note_started(now)
                    is_running = True
        assert not (is_running and found.state == "stopped")
    assert (is_running, found.state) == (True, "running")

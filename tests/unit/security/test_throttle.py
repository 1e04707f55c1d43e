"""Who has to wait before it may try to log in again."""

import pytest

from goqueue.model.ids import Instant
from goqueue.security.throttle import ENTRIES_MAX, FORGET_NS, SECOND_NS, LoginThrottle, network_of


def fail(throttle: LoginThrottle, times: int, user: str, host: str, now: int = 0) -> None:
    for _ in range(times):
        throttle.note_failure(user, host, Instant(now))


def wait_s(throttle: LoginThrottle, user: str, host: str, now: int = 0) -> float:
    return throttle.wait_ns(user, host, Instant(now)) / SECOND_NS


def test_after_some_failures_each_one_doubles_the_wait() -> None:
    throttle = LoginThrottle()
    waits = []
    for _ in range(13):
        fail(throttle, 1, "alice", "10.0.0.1")
        waits.append(wait_s(throttle, "alice", "10.0.0.1"))
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert wait_s(throttle, "alice", "10.0.0.1", 59 * SECOND_NS) == 1
    assert wait_s(throttle, "alice", "10.0.0.1", 60 * SECOND_NS) == 0


def test_an_address_that_guesses_waits_for_every_user_and_others_do_not() -> None:
    throttle = LoginThrottle()
    for n in range(25):
        fail(throttle, 1, f"user{n}", "10.0.0.1")
    assert wait_s(throttle, "somebody else", "10.0.0.1") > 0
    assert wait_s(throttle, "somebody else", "10.0.0.2") == 0


def test_a_user_whom_many_addresses_guess_may_go_on_from_where_it_was() -> None:
    throttle = LoginThrottle()
    throttle.note_success("alice", "10.9.9.9", Instant(0))
    for n in range(120):
        fail(throttle, 1, "alice", f"10.0.{n}.1")
    assert wait_s(throttle, "alice", "10.77.0.1") > 0
    assert wait_s(throttle, "alice", "10.9.9.9") == 0
    factors = []
    for _ in range(12):
        fail(throttle, 1, "alice", "10.9.9.9")
        assert wait_s(throttle, "alice", "10.9.9.9") == 0
        factors.append(throttle.delay_factor("alice", "10.9.9.9"))
    assert factors == [1, 1, 1, 1, 1, 2, 4, 8, 16, 16, 16, 16]
    throttle.note_success("alice", "10.9.9.9", Instant(0))
    assert throttle.delay_factor("alice", "10.9.9.9") == 1


def test_failures_are_forgotten() -> None:
    throttle = LoginThrottle()
    fail(throttle, 30, "alice", "10.0.0.1")
    assert wait_s(throttle, "alice", "10.0.0.1", FORGET_NS + 1) == 0
    fail(throttle, 1, "alice", "10.0.0.1", 2 * FORGET_NS)
    assert wait_s(throttle, "alice", "10.0.0.1", 2 * FORGET_NS) == 0


def test_the_tables_are_bounded() -> None:
    throttle = LoginThrottle()
    for n in range(ENTRIES_MAX + 500):
        fail(throttle, 1, f"user{n}", f"host{n}")
        throttle.note_success(f"user{n}", f"host{n}", Instant(0))
    fail(throttle, 1, "x", "y")
    assert throttle.entry_count <= 3 * ENTRIES_MAX
    assert len(throttle._known) == ENTRIES_MAX


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("?", "?"),
    ],
)
def test_a_network_of_ipv6_is_one_client(host: str, network: str) -> None:
    assert network_of(host) == network

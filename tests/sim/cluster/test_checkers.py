"""The checkers of the stories: what they let pass, and what they do not."""

import math

import pytest

from tests.sim.cluster.topics import Operation, is_linearizable

NEVER = math.inf


def created(began: float, ended: float, outcome: str = "ok") -> Operation:
    return Operation("create", began, ended, outcome)


def deleted(began: float, ended: float, outcome: str = "ok") -> Operation:
    return Operation("delete", began, ended, outcome)


def seen(at: float, value: str) -> Operation:
    return Operation("read", at, at, value)


@pytest.mark.parametrize(
    ("history", "is_right"),
    [
        ([created(0, 1), seen(2, "1")], True),
        ([created(0, 1), seen(2, "")], False),
        ([created(0, NEVER, ""), seen(2, "1")], True),
        ([created(0, NEVER, ""), seen(2, "")], True),
        ([created(0, 1), created(2, 3)], False),
        ([created(0, 1), created(2, 3, "exists")], True),
        ([created(0, 1), deleted(2, 3), created(4, 5)], True),
        ([created(0, NEVER, ""), deleted(2, 3), seen(4, "")], True),
        ([deleted(0, 1, "missing"), created(0, 1), seen(2, "1")], True),
        ([created(0, 1), deleted(2, 3, "missing")], False),
    ],
)
def test_answers_have_an_order_that_explains_them(history: list[Operation], is_right: bool):
    assert is_linearizable(history, "") is is_right


def test_the_last_value_that_was_set_is_the_one_that_is_read():
    first = Operation("set", 0, 1, "ok", "a")
    second = Operation("set", 2, 3, "ok", "b")
    lost = Operation("set", 2, NEVER, "", "c")
    assert is_linearizable([first, second, seen(4, "b")], "")
    assert not is_linearizable([first, second, seen(4, "a")], "")
    assert is_linearizable([first, second, lost, seen(4, "c")], "")

"""The checker finds what is wrong, and nothing else."""

import math

import pytest

from tests.unit.cluster.consensus.linearizability import Operation, is_linearizable

LEAD = Operation(0, 1, "lead", term=1)
LEAD_LATER = Operation(4, 5, "lead", term=2)
A = Operation(2, 3, "append", term=1, at=0, values=(b"a",))


def read(began: float, ended: float, *values: bytes) -> Operation:
    return Operation(began, ended, "read", values=values)


def test_history_of_one_leader_is_linearizable():
    second = Operation(4, 5, "append", term=1, at=1, values=(b"b", b"c"))
    assert is_linearizable([LEAD, A, second, read(6, 7, b"a", b"b", b"c")])


def test_read_beside_an_append_may_see_it_or_not():
    assert is_linearizable([LEAD, A, read(2, 3)])
    assert is_linearizable([LEAD, A, read(2, 3, b"a")])


def test_unknown_append_may_have_happened_or_not():
    unknown = Operation(2, math.inf, "append", "unknown", term=1, at=0, values=(b"a",))
    assert is_linearizable([LEAD, unknown, read(10, 11)])
    assert is_linearizable([LEAD, unknown, read(10, 11), read(12, 13, b"a")])


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([LEAD, A, read(4, 5)], id="lost: it was committed before the read began"),
        pytest.param([LEAD, read(1.2, 1.5, b"a"), A], id="seen before it began"),
        pytest.param([LEAD, A, read(4, 5, b"a", b"a")], id="twice"),
        pytest.param(
            [LEAD, A, LEAD_LATER, Operation(6, 7, "append", term=1, at=1, values=(b"b",))],
            id="committed under an old term",
        ),
        pytest.param(
            [
                LEAD,
                LEAD_LATER,
                Operation(6, 7, "append", "fenced", 1, 0, (b"b",)),
                read(8, 9, b"b"),
            ],
            id="fenced, and there",
        ),
        pytest.param(
            [LEAD, Operation(2, 3, "append", "fenced", 1, 0, (b"b",))],
            id="fenced by nobody",
        ),
        pytest.param([LEAD, Operation(2, 3, "lead", term=1)], id="one term for two leaders"),
        pytest.param(
            [LEAD, A, Operation(4, 5, "append", term=1, at=0, values=(b"b",))],
            id="two entries at one index",
        ),
        pytest.param(
            [
                LEAD,
                Operation(2, math.inf, "append", "unknown", 1, 0, (b"a",)),
                LEAD_LATER,
                read(6, 7),
                read(8, 9, b"a"),
            ],
            id="took effect after a newer term",
        ),
        pytest.param(
            [
                LEAD,
                Operation(2, 9, "append", term=1, at=0, values=(b"a",)),
                read(3, 4, b"a"),
                read(5, 6),
            ],
            id="seen, and not seen later",
        ),
    ],
)
def test_violation_is_found(wrong: list[Operation]):
    assert not is_linearizable(wrong)

"""Shares of the lanes, starvation, and the index of where each lane lies."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.queue.lanes import BACKGROUND, CRITICAL, LANES, LOW, NORMAL, WEIGHTS, Turns, lane_of


def serve(
    turns: Turns,
    backlog: list[int],
    request: int,
    now: int = 0,
    starvation_ms: int = 30_000,
    believed: frozenset[int] = frozenset(),
) -> list[int]:
    """One request of so many messages, as the counter does it; gives what each lane was served.

    `believed` are lanes that are offered too, whether there is anything in them or not.
    """
    served = [0] * LANES
    lanes = {lane for lane in range(LANES) if backlog[lane]} | believed
    for lane in turns.begin(lanes, now, starvation_ms):
        count = min(backlog[lane], 1, request - sum(served))
        backlog[lane] -= count
        served[lane] += count
        turns.note_served(lane, count, now)
    room = request - sum(served)
    while lanes and room:
        is_alone = len(lanes) == 1
        lane, share = turns.turn(lanes, room)
        count = min(share, backlog[lane])
        turns.note_served(lane, count, now, is_alone=is_alone)
        backlog[lane] -= count
        served[lane] += count
        room -= count
        if count < share:
            lanes.discard(lane)
    return served


@pytest.mark.parametrize("request_size", [1, 7, 100, 1000])
def test_shares_are_as_the_weights_say_under_backlog(request_size):
    turns = Turns()
    backlog = [1_000_000] * LANES
    total = [0] * LANES
    while sum(total) < 20_000:
        for lane, count in enumerate(serve(turns, backlog, request_size)):
            total[lane] += count
    for lane in range(LANES):
        assert abs(100 * total[lane] / sum(total) - WEIGHTS[lane]) < 2


def test_a_share_that_is_not_used_goes_to_the_others():
    turns = Turns()
    total = [0] * LANES
    for _ in range(100):
        backlog = [0, 0, 1_000, 0, 1_000]
        for lane, count in enumerate(serve(turns, backlog, 60)):
            total[lane] += count
    assert sum(total) == 6_000
    assert abs(total[NORMAL] / 6_000 - 15 / 18) < 0.02


def test_everything_is_served_in_the_end_whatever_the_mix():
    chance = random.Random(5)
    for _ in range(50):
        turns = Turns(weights=[chance.randrange(1, 60) for _ in range(LANES)])
        backlog = [chance.randrange(0, 300) for _ in range(LANES)]
        left = sum(backlog)
        while left:
            served = sum(serve(turns, backlog, chance.randrange(1, 80)))
            assert served > 0
            left -= served
        assert backlog == [0] * LANES


def test_strict_priority_serves_the_highest_and_spares_the_starving():
    turns = Turns(is_strict=True)
    backlog = [10_000, 0, 0, 0, 10_000]
    assert serve(turns, backlog, 100, now=0) == [100, 0, 0, 0, 0]
    assert serve(turns, backlog, 100, now=29_999) == [100, 0, 0, 0, 0]
    assert serve(turns, backlog, 100, now=30_000)[BACKGROUND] == 1
    assert serve(turns, backlog, 100, now=30_001)[BACKGROUND] == 0


def test_a_lane_that_was_empty_has_not_waited():
    turns = Turns(is_strict=True)
    serve(turns, [10, 0, 0, 0, 0], 1, now=0)
    assert serve(turns, [10, 0, 0, 0, 10], 5, now=60_000)[BACKGROUND] == 0
    assert serve(turns, [10, 0, 0, 0, 10], 5, now=89_000)[BACKGROUND] == 0
    assert serve(turns, [10, 0, 0, 0, 10], 5, now=90_000)[BACKGROUND] == 1


def test_with_few_consumers_every_lane_gets_its_turn():
    turns = Turns()
    total = [0] * LANES
    for number in range(50):
        for lane, count in enumerate(serve(turns, [100] * LANES, 1, now=number * 40_000)):
            total[lane] += count
    assert min(total) >= 8


@given(
    backlog=st.lists(st.integers(0, 200), min_size=LANES, max_size=LANES),
    believed=st.frozensets(st.integers(0, LANES - 1)),
    requests=st.lists(st.tuples(st.integers(LANES, 60), st.integers(1, 900)), max_size=60),
    weights=st.lists(st.integers(1, 1000), min_size=LANES, max_size=LANES),
    is_strict=st.booleans(),
)
def test_no_lane_waits_longer_than_it_may_whatever_the_mix(
    backlog, believed, requests, weights, is_strict
):
    turns = Turns(weights, is_strict=is_strict)
    now, last = 0, [0] * LANES
    for request, pause in requests:
        has_some = [count > 0 for count in backlog]
        served = serve(turns, backlog, request, now, 1_000, believed)
        for lane in range(LANES):
            if served[lane] or not has_some[lane]:
                last[lane] = now
            assert now - last[lane] < 1_000, "the turn after its time was up had to be its own"
        now += pause


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        (b"critical", CRITICAL),
        (b"0", CRITICAL),
        (b" LOW ", LOW),
        (b"4", BACKGROUND),
        (b"5", NORMAL),
        (b"soon", NORMAL),
        (b"", NORMAL),
        (None, NORMAL),
    ],
)
def test_a_priority_is_a_word_or_a_number(text, lane):
    assert lane_of(text) == lane

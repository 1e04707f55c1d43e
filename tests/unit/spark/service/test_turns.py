"""Who is live, where there are more than may be."""

from goqueue.spark.service.turns import (
    BEGIN_MAX,
    REST_SECONDS,
    TURN_SECONDS,
    Live,
    Turn,
    Waiting,
    take_turns,
)

NOW = 1000.0
RESTED = NOW - REST_SECONDS


def resting(name: str, since: float = RESTED, queries: int = 1) -> Live:
    return Live(name, queries, NOW - 5, rests_since=since, has_moved=True)


def busy(name: str, turn_seconds: float, *, has_moved: bool = True, queries: int = 1) -> Live:
    return Live(name, queries, NOW - turn_seconds, has_moved=has_moved)


def waiting(*names: str, queries: int = 1) -> list[Waiting]:
    return [Waiting(name, queries, NOW + number) for number, name in enumerate(names)]


def test_nobody_is_parked_while_there_is_room():
    assert take_turns([resting("a")], waiting("b"), 2, NOW) == Turn([], ["b"])
    assert take_turns([resting("a"), resting("b")], [], 1, NOW) == Turn([], [])


def test_the_one_that_rested_longest_gives_way():
    live = [resting("a"), resting("b", RESTED - 1), busy("c", 5)]
    assert take_turns(live, waiting("d"), 3, NOW) == Turn(["b"], ["d"])


def test_one_that_has_just_read_everything_is_left_alone_for_a_while():
    assert take_turns([resting("a", NOW - 0.5)], waiting("b"), 1, NOW) == Turn([], [])


def test_one_with_more_to_read_gives_way_when_its_turn_is_over():
    live = [busy("a", TURN_SECONDS), busy("b", TURN_SECONDS + 1)]
    assert take_turns(live, waiting("c"), 2, NOW) == Turn(["b"], ["c"])
    assert take_turns([busy("a", TURN_SECONDS - 1)], waiting("c"), 1, NOW) == Turn([], [])


def test_a_turn_has_at_least_one_batch_however_long_that_takes():
    slow = busy("a", 100 * TURN_SECONDS, has_moved=False)
    assert take_turns([slow], waiting("b"), 1, NOW) == Turn([], [])


def test_who_waited_longest_begins_and_is_not_overtaken():
    wide = Waiting("wide", 3, NOW - 10)
    assert take_turns([busy("a", 1)], [*waiting("b"), wide], 3, NOW) == Turn([], [])
    assert take_turns([resting("a")], [*waiting("b"), wide], 3, NOW) == Turn(["a"], ["wide"])


def test_one_with_more_queries_than_there_is_room_for_runs_alone():
    wide = [Waiting("wide", 5, NOW)]
    assert take_turns([busy("a", 1)], wide, 2, NOW) == Turn([], [])
    assert take_turns([resting("a")], wide, 2, NOW) == Turn(["a"], ["wide"])
    assert take_turns([], [*wide, *waiting("b")], 2, NOW) == Turn([], ["wide"])


def test_not_all_begin_at_once():
    names = [f"p{number}" for number in range(50)]
    assert take_turns([], waiting(*names), 100, NOW) == Turn([], names[:BEGIN_MAX])

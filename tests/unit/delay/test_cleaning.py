"""Which messages are moved, so that a delay log can be cut."""

from array import array

import pytest

from goqueue.delay.cleaning import LowestPlaces, choose_copies


@pytest.mark.parametrize(
    ("places", "ends", "expected"),
    [
        ([], [100, 200], 0),
        ([0], [100, 200], 1),
        ([0], [], 0),
        ([0, 150], [100, 200], 2),
        ([0, *range(150, 250)], [100, 200, 300], 1),  # the others are too many
        ([*range(50)], [100], 0),
        ([*range(50)], [100, 200], 50),
        ([300], [100, 200], 0),  # the log can be cut already
    ],
)
def test_so_many_are_moved_that_four_times_as_many_places_are_freed(
    places: list[int], ends: list[int], expected: int
):
    assert choose_copies([(each, each) for each in places], start=0, ends=ends) == expected


@pytest.mark.parametrize("are_moved", [False, True])
def test_the_lowest_places_of_many_chunks(are_moved: bool):
    lowest = LowestPlaces(lambda offset: offset + are_moved * 1000 * (offset % 2 == 0), most=5)
    for start in range(0, 200, 10):
        lowest.note(array("q", range(start, start + 10)), are_moved=are_moved)
    found = [place for place, _ in lowest.find()]
    assert found == ([1, 3, 5, 7, 9] if are_moved else [0, 1, 2, 3, 4])
    assert lowest.left_out


def test_few_places_are_all_there():
    lowest = LowestPlaces(int, most=5)
    lowest.note(array("q"), are_moved=False)
    lowest.note(array("q", [4, 2]), are_moved=False)
    assert lowest.find() == [(2, 2), (4, 4)]
    assert not lowest.left_out

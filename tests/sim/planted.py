"""The numbers of planted bugs, as the design lists them: a plant's docstring begins with its own.

10: an ISR that was proposed counts before it is granted.
"""

import re
from collections.abc import Callable, Iterable

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def number_of(plant: Plant) -> int:
    found = re.match(r"(\d+)[:,]", plant.__doc__ or "")
    assert found is not None, f"the text of {plant.__name__} begins with no number"
    return int(found[1])


def name_of(plant: Plant) -> str:
    """By which a test is listed and chosen: `-k "bug-23"`."""
    return f"bug-{number_of(plant)}-{plant.__name__}"


def names_of(plants: Iterable[Plant]) -> list[str]:
    return [name_of(each) for each in plants]

"""A view that is drawn anew until the user has seen enough."""

import time

import pytest

from goqueue.cli import live, output


class Enough(BaseException):
    """As ctrl-c."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The third pause is the last."""
    slept: list[float] = []

    def pause(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Enough

    monkeypatch.setattr(time, "sleep", pause)
    return slept


def test_programs_get_one_value_after_the_other(
    pauses: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live, "for_people", lambda: False)
    numbers = iter(range(10))
    with pytest.raises(Enough):
        live.watch(lambda: (next(numbers), "for people"), 2.5)
    assert capsys.readouterr().out.split() == ["0", "1", "2"]
    assert pauses == [2.5] * 3


def test_people_get_a_view_that_is_drawn_in_place(
    pauses: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live, "for_people", lambda: True)
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    numbers = iter(range(10))
    with pytest.raises(Enough):
        live.watch(lambda: (None, f"view {next(numbers)}"), 2.5)
    assert "view 2" in capsys.readouterr().out
    assert pauses == [2.5] * 3

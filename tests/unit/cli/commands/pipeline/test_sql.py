"""`goqueue pipeline sql`: what is refused, and how rows are shown."""

from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.cli.commands.pipeline import sql
from tests.unit.cli.commands.pipeline.test_pipeline import refusal


def test_what_goes_on_has_no_end():
    told = refusal("sql", "select 1", "--follow", "--to-time", "2026-01-31T12:00:00Z")
    assert "--follow has no end" in told


@pytest.mark.parametrize(
    ("value", "cell"), [({"a": [1]}, '{"a":[1]}'), ([1, 2], "[1,2]"), (5, 5), (None, None)]
)
def test_structures_are_shown_as_json(value: object, cell: object):
    assert sql._cell(value) == cell


@pytest.mark.parametrize(("count", "note"), [(2, ""), (3, "there are more rows")])
def test_who_sees_not_all_rows_is_told_so(
    count: int, note: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class Frame:
        columns = ("id",)

        def limit(self, most: int) -> SimpleNamespace:
            return SimpleNamespace(collect=lambda: [{"id": n} for n in range(min(most, count))])

    def job(_name: str, work: Any) -> Any:
        return work()

    shown: list[Any] = []
    monkeypatch.setattr("goqueue.spark.sql.rows.plain_rows", list)
    monkeypatch.setattr(sql, "show", lambda value, *_: shown.extend(value))
    sql._show(SimpleNamespace(job=job), Frame(), 2)  # type: ignore[arg-type]
    assert shown == [{"id": 0}, {"id": 1}]
    assert note in capsys.readouterr().err
    assert bool(note) == (count > 2)

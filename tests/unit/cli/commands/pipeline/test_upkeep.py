"""`goqueue pipeline vacuum`: what is told of the files that no table uses."""

from types import SimpleNamespace

import msgspec
import pytest

from tests.unit.cli.invocation import run


class Vacuumed(msgspec.Struct):
    table: str
    removed: list[str]


@pytest.mark.parametrize(("flags", "heading"), [([], "REMOVED"), (["--dry-run"], "TO REMOVE")])
def test_tables_are_told_with_how_many_files_went(
    flags: list[str], heading: str, monkeypatch: pytest.MonkeyPatch
):
    asked: list[SimpleNamespace] = []

    def vacuum(folder: str, **told: object) -> list[Vacuumed]:
        asked.append(SimpleNamespace(folder=folder, **told))
        return [Vacuumed("orders", ["a", "b"])]

    monkeypatch.setattr("goqueue.spark.lake.upkeep.vacuum", vacuum)
    shown = run("pipeline", "vacuum", "lake", "--hours", 2, *flags, "-o", "table", code=0).stdout
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["TABLE", "orders"]
    assert heading in shown
    told = {"hours": 2.0, "dry_run": bool(flags), "catalog": None}
    assert asked == [SimpleNamespace(folder="lake", **told)]

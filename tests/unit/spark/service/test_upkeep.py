"""Archives that are kept in shape."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from goqueue.spark.pipelines.model import ArchiveSink
from goqueue.spark.pipelines.places import Places
from goqueue.spark.service.upkeep import Upkeep


def test_only_archives_are_kept_and_what_fails_is_told(tmp_path: Path):
    told: list[tuple[str, str]] = []
    upkeep = Upkeep(None, 60.0, lambda name, text: told.append((name, text)))
    places = Places("", tmp_path, "checkpoints", "orders")
    archive: Any = SimpleNamespace(archives=[ArchiveSink("lake", "orders")], places=places)
    plain: Any = SimpleNamespace(archives=[], places=places)
    running = [("orders", archive), ("plain", plain), ("same place", archive)]
    upkeep.run_if_due(running, 0.0)
    upkeep.run_if_due(running, 59.0)
    upkeep.close()
    assert told == []
    again = Upkeep(None, 60.0, lambda name, text: told.append((name, text)))
    again.run_if_due(running, 0.0)
    again.run_if_due(running, 61.0)
    again._thread.join(30)  # type: ignore[union-attr]
    ((name, text),) = told
    assert name == "orders"
    assert str(tmp_path / "lake") in text

"""Changes merged into tables by a driver that is killed: the table is what the changes say."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.spark.conftest import Fill, MakeTopic
from tests.spark.lake_crashes.upsert_job import Settings, run
from tests.unit.spark.lake.readers import read_as_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = Path(__file__).with_name("upsert_job.py")
JOB_S = 600.0
KILLED = -9
CHANGES = 600
KEYS = 50
ROWS_A_BATCH = 200

Change = dict[str, Any]


def changes(seed: int) -> list[Change]:
    """Of random keys in the order of their times, then a little out of order."""
    chance = random.Random(seed)
    states: dict[int, Any] = {}
    made: list[Change] = []
    for number in range(CHANGES):
        key = chance.randrange(KEYS)
        before = states.get(key)
        after: Any = {"id": key, "name": f"n{number}"}
        if before is not None and chance.random() < 0.3:
            after = None
        op = "d" if after is None else "c" if before is None else "u"
        states[key] = after
        made.append({"before": before, "after": after, "op": op, "ts_ms": 1_000 + number})
    return sorted(made, key=lambda each: each["ts_ms"] + chance.randrange(40))


def expected(made: list[Change]) -> dict[int, str]:
    states: dict[int, Any] = {}
    for each in sorted(made, key=lambda change: change["ts_ms"]):
        row = each["after"] or each["before"]
        states[row["id"]] = each["after"]
    return {key: row["name"] for key, row in states.items() if row is not None}


class Scene:
    def __init__(self, broker: str, topic: str, folder: Path, format: str, **more: Any) -> None:
        self.settings = Settings(
            bootstrap=broker,
            topic=topic,
            folder=str(folder),
            format=format,
            rows_a_batch=ROWS_A_BATCH,
            **more,
        )

    def die(self, point: str, merge: int) -> None:
        told = msgspec.structs.replace(self.settings, point=point, merge=merge)
        done = subprocess.run(
            [sys.executable, "-P", str(JOB), msgspec.json.encode(told).decode()],
            capture_output=True,
            timeout=JOB_S,
            start_new_session=True,
            check=False,
        )
        assert done.returncode == KILLED, done.stderr.decode()[-3000:]

    def rows(self) -> list[dict[str, Any]]:
        folder = Path(self.settings.folder) / "lake" / "people"
        rows: list[dict[str, Any]] = read_as_others(self.settings.format, folder).to_pylist()
        return rows


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("history", [False, True])
def test_deaths_at_any_point_do_not_show(
    spark: "SparkSession",
    broker: str,
    make_topic: MakeTopic,
    fill: Fill,
    tmp_path: Path,
    format: str,
    history: bool,
):
    made = changes(2)
    scene = Scene(broker, fill_topic(make_topic, fill, made), tmp_path, format, history=history)
    for point in ("before", "between", "after", "between"):  # the last in the last batch
        scene.die(point, 1)
    run(spark, scene.settings)
    if history:
        check_history(scene, made)
    else:
        check_states(scene, made)
        # Without its checkpoint everything comes again, and nothing changes.
        before = scene.rows()
        for each in sorted((tmp_path / "checkpoints").rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        run(spark, scene.settings)
        assert sorted(map(str, scene.rows())) == sorted(map(str, before))


def fill_topic(make_topic: MakeTopic, fill: Fill, made: list[Change]) -> str:
    topic = make_topic(1)
    texts = [json.dumps(each) for each in made]
    for start in range(0, len(texts), 100):
        fill(topic, 0, texts[start : start + 100])
    return topic


def check_states(scene: Scene, made: list[Change]) -> None:
    rows = scene.rows()
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["id"]: row["name"] for row in rows} == expected(made)


def check_history(scene: Scene, made: list[Change]) -> None:
    rows = scene.rows()
    assert len(rows) == len(made)
    assert {row["id"]: row["name"] for row in rows if row["is_current"]} == expected(made)
    ends = {(row["id"], row["valid_from"]): row["valid_to"] for row in rows}
    assert all(end is None or (key, end) in ends for (key, _), end in ends.items())

"""Which archives a folder holds."""

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs goqueue[spark]")

import pyarrow as pa

from goqueue.spark.archive.job import BadArchiveOptions, _check_formats, _checkpoint
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.archive.tables import find_archives, format_of
from goqueue.spark.lake import open_table

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name, format in (("orders", "delta"), ("_clicks", "parquet")):
        place = tmp_path / name
        open_table(format, place, date_column="date", time_column="timestamp").ensure(SCHEMA)
    for name in ("_checkpoint", "_checkpoint-0123456789ab"):  # what Spark leaves there
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").write_text("{}")
    return tmp_path


def test_sparks_checkpoints_are_not_taken_for_tables(lake: Path):
    assert [each.name for each in find_archives(lake)] == ["_clicks", "orders"]
    assert not (lake / "catalog.db").exists()


def test_a_table_of_another_format_is_not_written_into(lake: Path):
    assert format_of(str(lake / "orders")) == "delta"
    _check_formats(ArchiveOptions(topics=("orders", "more"), target=str(lake), format="delta"))
    with pytest.raises(BadArchiveOptions, match="orders is a delta table"):
        _check_formats(ArchiveOptions(topics=("orders",), target=str(lake), format="iceberg"))


def test_each_choice_of_topics_has_a_checkpoint_of_its_own(tmp_path: Path):
    def place(*topics: str, format: str = "delta") -> str:
        return _checkpoint(
            ArchiveOptions(topics=topics, target=str(tmp_path), format=format)  # type: ignore[arg-type]
        )

    assert place("orders", "clicks") == place("clicks", "orders")
    found = {place("orders"), place("orders", "clicks"), place("orders", format="parquet")}
    assert len(found) == 3

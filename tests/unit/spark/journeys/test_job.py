from pathlib import Path

from goqueue.spark.journeys.job import JourneyFigures, write_journeys


def test_tables_with_rows_are_written(tmp_path: Path):
    (tmp_path / "slowest.parquet").write_text("of the last time")
    figures = JourneyFigures([{"step": "ack", "messages": 3}], [{"event": "x"}], [])
    written = write_journeys(figures, tmp_path)
    assert [path.name for path in written] == ["latencies.parquet", "steps.parquet"]
    assert not (tmp_path / "slowest.parquet").exists()

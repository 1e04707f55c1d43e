"""`goqueue pipeline archive`: what is refused before Spark starts."""

import pytest

from tests.unit.cli.commands.pipeline.test_pipeline import refusal


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name topics, or give a pattern"),
        (["a", "--pattern", "b"], "name topics, or give a pattern"),
        (["a", "--format", "csv"], "parquet, delta, iceberg"),
        (["a", "--decode", "xml"], "none, json"),
        (["a", "--fields", "id bigint"], "decode"),
        (["a", "--no-keep-value"], "must be kept"),
        (["a", "--start", "middle"], "earliest or latest"),
        (["a", "--every", "often"], "--every"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_makes_no_sense_is_refused_with_the_way_out(arguments: list[str], text: str):
    assert text in refusal("archive", *arguments)

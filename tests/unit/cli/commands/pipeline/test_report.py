"""`goqueue pipeline report`: what is refused before Spark starts."""

from tests.unit.cli.commands.pipeline.test_pipeline import refusal


def test_the_origin_of_a_message_is_a_header_or_a_field():
    assert "write header:NAME or json:$.field" in refusal("report", "a", "--origin", "key")

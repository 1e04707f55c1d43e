"""`goqueue pipeline replay`: what is refused before Spark starts."""

import pytest

from tests.unit.cli.commands.pipeline.test_pipeline import refusal


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--archive DIR or --topic TOPIC"),
        (["--topic", "b", "--archive", "c"], "--archive DIR or --topic"),
        (["--topic", "b", "--since", "-1h"], "write 20"),
        (["--topic", "b", "--before", "now"], "write 20"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_makes_no_sense_is_refused_with_the_way_out(arguments: list[str], text: str):
    assert text in refusal("replay", "--to", "a", *arguments)

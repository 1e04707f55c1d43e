"""Pipelines that the guides show are sound."""

import re
from pathlib import Path

import pytest

from goqueue.spark.pipelines.reading import read_pipeline

GUIDES = Path(__file__).parents[4] / "docs" / "guides"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOUND = [
    (page.name, text)
    for page in sorted(GUIDES.glob("*.md"))
    for text in YAML.findall(page.read_text(encoding="utf-8"))
    if "sources:" in text
]


def test_there_are_some():
    assert len(FOUND) >= 4


@pytest.mark.parametrize(("page", "text"), FOUND)
def test_a_pipeline_of_a_guide_is_sound(page: str, text: str):
    assert read_pipeline(text, variables={}).name, page

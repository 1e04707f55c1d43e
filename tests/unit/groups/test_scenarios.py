"""The files `testdata/*.txt` document the protocols of groups, and are run here (`scenario`)."""

import os
from pathlib import Path

import pytest

from tests.unit.groups.scenario import run_scenario

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_has_the_output_that_its_file_says(file: Path) -> None:
    expected = file.read_text()
    actual = run_scenario(expected)
    if os.environ.get("GOQUEUE_REWRITE_SCENARIOS"):
        file.write_text(actual)
    else:
        assert actual == expected


def test_there_are_scenarios() -> None:
    assert FILES

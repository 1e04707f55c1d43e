"""The files `testdata/*.txt` document queues, and are run here (`scenario`)."""

from pathlib import Path

import pytest

from goqueue.testing.sim.world import World
from tests.scenarios import check
from tests.unit.broker.queues.scenario import ScenarioWorld

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_has_the_output_that_its_file_says(file: Path) -> None:
    with World("scenario") as world:
        check(file, ScenarioWorld(world).run)


def test_there_are_scenarios() -> None:
    assert FILES

"""Whole brokers, clients of every kind, and faults: a slice of what `make sim-cluster` tells.

In a process of its own, with the order of sets that campaigns have: a seed that fails here fails
everywhere.  Story and campaign are in `story.py` and `campaign.py`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SEEDS_EACH = 5


@pytest.mark.parametrize("first", range(0, 20, SEEDS_EACH))
def test_a_cluster_keeps_its_promises_whatever_breaks(first: int):
    campaign = [sys.executable, "-m", "tests.sim.cluster.campaign"]
    seeds = ["--first", str(first), "--schedules", str(SEEDS_EACH)]
    told = subprocess.run(
        [*campaign, *seeds], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr

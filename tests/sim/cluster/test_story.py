"""Whole brokers, clients of every kind, and faults: a slice of what `make sim-cluster` tells.

A failure names the command that repeats it.  Story and campaign are in `story.py`, `campaign.py`.
"""

from tests.sim.cluster.story import Story


def test_a_cluster_keeps_its_promises_whatever_breaks(seed: int):
    Story(seed).tell()

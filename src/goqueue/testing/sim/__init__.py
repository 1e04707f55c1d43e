"""Simulated clock, disk, network and randomness, repeatable by one seed.

What runs on the real ones runs unchanged on these.  `World` bundles them.
"""

from goqueue.testing.sim.clock import SimClock
from goqueue.testing.sim.disk import Moment, SimDisk, SimFile
from goqueue.testing.sim.loop import SimCrash, SimDeadlock, SimLivelock, SimLoop, run
from goqueue.testing.sim.network import SimFabric, SimNetwork
from goqueue.testing.sim.randomness import SimRandom
from goqueue.testing.sim.world import World

__all__ = [
    "Moment",
    "SimClock",
    "SimCrash",
    "SimDeadlock",
    "SimDisk",
    "SimFabric",
    "SimFile",
    "SimLivelock",
    "SimLoop",
    "SimNetwork",
    "SimRandom",
    "World",
    "run",
]

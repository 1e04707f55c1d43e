"""Pretend doors: time, disk, network and chance that one seed repeats.

What runs on the real doors runs unchanged on these.  `World` bundles them.
"""

from goqueue.sim.chance import SimRandom
from goqueue.sim.clock import SimClock
from goqueue.sim.disk import Moment, SimCrash, SimDisk, SimFile
from goqueue.sim.loop import SimDeadlock, SimLivelock, SimLoop, run

__all__ = [
    "Moment",
    "SimClock",
    "SimCrash",
    "SimDeadlock",
    "SimDisk",
    "SimFile",
    "SimLivelock",
    "SimLoop",
    "SimRandom",
    "run",
]

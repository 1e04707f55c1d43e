"""Clock, disk, network and randomness: the interfaces and the real versions."""

from goqueue.runtime.chance import RealRandom
from goqueue.runtime.clock import RealClock
from goqueue.runtime.disk import OPEN_FILES_MAX, RealDisk
from goqueue.runtime.doors import Clock, Disk, Doors, File, Listener, Network, Random
from goqueue.runtime.network import RealNetwork


def real_doors(open_files_max: int = OPEN_FILES_MAX) -> Doors:
    disk = RealDisk(open_files_max=open_files_max)
    return Doors(RealClock(), disk, RealNetwork(), RealRandom())


__all__ = [
    "Clock",
    "Disk",
    "Doors",
    "File",
    "Listener",
    "Network",
    "Random",
    "RealClock",
    "RealDisk",
    "RealNetwork",
    "RealRandom",
    "real_doors",
]

"""Clock, disk, network and randomness: the interfaces and the real versions."""

from goqueue.runtime.clock import RealClock
from goqueue.runtime.disk import OPEN_FILES_MAX, RealDisk
from goqueue.runtime.environment import Clock, Disk, Environment, File, Listener, Network, Random
from goqueue.runtime.mutual_tls import MutualTlsNetwork
from goqueue.runtime.network import RealNetwork
from goqueue.runtime.randomness import RealRandom
from goqueue.runtime.steady import SteadyTime
from goqueue.runtime.tls_listener import Handshakes
from goqueue.runtime.tls_writes import write_in_pieces


def real_environment(open_files_max: int = OPEN_FILES_MAX) -> Environment:
    disk = RealDisk(open_files_max=open_files_max)
    return Environment(RealClock(), disk, RealNetwork(), RealRandom())


__all__ = [
    "Clock",
    "Disk",
    "Environment",
    "File",
    "Handshakes",
    "Listener",
    "MutualTlsNetwork",
    "Network",
    "Random",
    "RealClock",
    "RealDisk",
    "RealNetwork",
    "RealRandom",
    "SteadyTime",
    "real_environment",
    "write_in_pieces",
]

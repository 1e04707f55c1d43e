"""The broker: hosts the machines, owns the partitions, and offers the verbs of all listeners."""

from goqueue.broker.broker import NO_OFFSET, Broker
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition import Partition

__all__ = ["NO_OFFSET", "Broker", "MachineHost", "Partition"]

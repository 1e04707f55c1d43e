"""The broker: hosts the machines, owns the partitions, and offers the verbs of all listeners."""

from goqueue.broker.broker import Broker
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.offset_lookup import NO_OFFSET
from goqueue.broker.storage.partition import Partition

__all__ = ["NO_OFFSET", "Broker", "MachineHost", "Partition"]

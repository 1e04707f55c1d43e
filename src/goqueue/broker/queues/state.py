"""The queue machine and its host: what the parts of queues and dead letters share."""

from goqueue.broker.machine_host import MachineHost
from goqueue.queue import QueueMachine


class QueueState:
    """Made before the machine is replayed, so that its users can be made too."""

    def __init__(self) -> None:
        self._host: MachineHost[QueueMachine] | None = None

    def attach(self, host: MachineHost[QueueMachine]) -> None:
        self._host = host

    @property
    def host(self) -> MachineHost[QueueMachine]:
        assert self._host is not None, "the broker is not open"
        return self._host

    @property
    def machine(self) -> QueueMachine:
        return self.host.machine

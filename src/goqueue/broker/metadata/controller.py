"""The controller: the node that decides the metadata, because it holds the term of its log."""

import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.metadata.consensus_journal import ConsensusJournal
from goqueue.cluster import Metadata
from goqueue.cluster.consensus import ConsensusLog
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock

_log = structlog.get_logger("goqueue.controller")


async def lead(log: ConsensusLog, machine: Metadata, clock: Clock) -> MachineHost[Metadata]:
    """Take the term, and bring the machine to the end of the log."""
    leadership = await log.lead()
    host = MachineHost(machine, ConsensusJournal(log, leadership, _tell_lost), clock)
    await host.open()
    return host


def _tell_lost(error: GoQueueError) -> None:
    _log.error("not the controller any more", problem=str(error))

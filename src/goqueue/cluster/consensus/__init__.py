"""The log that the nodes of a cluster agree on, and its engines."""

from goqueue.cluster.consensus.consensus_log import (
    ConsensusLog,
    Entries,
    Index,
    Leadership,
    Member,
    Snapshot,
    Term,
)

__all__ = ["ConsensusLog", "Entries", "Index", "Leadership", "Member", "Snapshot", "Term"]

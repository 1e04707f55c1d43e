"""Why the controller refuses something."""

from goqueue.model.errors import GoQueueError


class NodeNotFound(GoQueueError):
    code = "node_not_found"


class StaleNodeEpoch(GoQueueError):
    """The node has registered again since: whoever says so is an earlier process of it."""

    code = "stale_node_epoch"


class StalePartitionEpoch(GoQueueError):
    """The partition has changed since the leader proposed the change."""

    code = "stale_partition_epoch"
    retriable = True


class IneligibleReplica(GoQueueError):
    """A node that must not be in the ISR now: it is fenced, or has registered again."""

    code = "ineligible_replica"
    retriable = True


class NodeInUse(GoQueueError):
    """A node with replicas cannot be removed."""

    code = "node_in_use"


class ElectionNotNeeded(GoQueueError):
    code = "election_not_needed"


class LeaderNotAvailable(GoQueueError):
    """Nobody who could lead the partition is there."""

    code = "leader_not_available"
    retriable = True


class NoReassignment(GoQueueError):
    code = "no_reassignment"


class FeatureRefused(GoQueueError):
    """A level that not all nodes support, or that is lower than the present one."""

    code = "feature_refused"

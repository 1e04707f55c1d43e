"""What the controller decides: each verb looks at the metadata, and says what to write.

Nothing here changes anything, waits, or asks for the time: `goqueue.broker.metadata` carries out
what is decided.
"""

from goqueue.cluster.controller.configs import (
    change_broker_config,
    change_group_config,
    end_reassignment_throttle,
    take_over_group_configs,
)
from goqueue.cluster.controller.election import (
    askable,
    electorate,
    is_vacant,
    resign_control,
    take_control,
)
from goqueue.cluster.controller.features import raise_features, set_feature_level
from goqueue.cluster.controller.ids import name_cluster, reserve_producer_ids
from goqueue.cluster.controller.isr import IsrChange, alter_partition
from goqueue.cluster.controller.leadership import (
    ElectionType,
    elect_leader,
    hand_over,
    prefer_leaders,
)
from goqueue.cluster.controller.node_states import (
    drain_node,
    fence_node,
    remove_node,
    undrain_node,
    unfence_node,
)
from goqueue.cluster.controller.placement import default_replication_factor
from goqueue.cluster.controller.reassignment import cancel_reassignment, reassign
from goqueue.cluster.controller.registration import (
    Registration,
    announce_node,
    check_not_removed,
    register_node,
)
from goqueue.cluster.controller.security import change_security, check_user_name
from goqueue.cluster.controller.tenants import check_delay, owner, owner_id, topics_of
from goqueue.cluster.controller.topics import (
    add_partitions,
    change_settings,
    create_topic,
    delete_topic,
    note_data_removed,
)

__all__ = [
    "ElectionType",
    "IsrChange",
    "Registration",
    "add_partitions",
    "alter_partition",
    "announce_node",
    "askable",
    "cancel_reassignment",
    "change_broker_config",
    "change_group_config",
    "change_security",
    "change_settings",
    "check_delay",
    "check_not_removed",
    "check_user_name",
    "create_topic",
    "default_replication_factor",
    "delete_topic",
    "drain_node",
    "elect_leader",
    "electorate",
    "end_reassignment_throttle",
    "fence_node",
    "hand_over",
    "is_vacant",
    "name_cluster",
    "note_data_removed",
    "owner",
    "owner_id",
    "prefer_leaders",
    "raise_features",
    "reassign",
    "register_node",
    "remove_node",
    "reserve_producer_ids",
    "resign_control",
    "set_feature_level",
    "take_control",
    "take_over_group_configs",
    "topics_of",
    "undrain_node",
    "unfence_node",
]

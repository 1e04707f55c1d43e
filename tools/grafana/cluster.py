"""The cluster: replicas, leaders, nodes."""

from typing import Final

from tools.grafana.expressions import rate
from tools.grafana.panels import RATE, Dashboard, Panel, Query, Row

CLUSTER: Final = Dashboard(
    uid="goqueue-cluster",
    title="GoQueue / Cluster",
    meaning="Replicas, leaders, nodes and moves.  A broker that is alone is a cluster of one.",
    rows=[
        Row(
            "Partitions",
            [
                Panel(
                    "Offline",
                    "Partitions that nobody leads.",
                    [Query("max(goqueue_cluster_offline_partitions)", "partitions")],
                    red_from=1,
                ),
                Panel(
                    "Under min.insync.replicas",
                    "Partitions that refuse acks=all.",
                    [Query("max(goqueue_cluster_under_min_isr_partitions)", "partitions")],
                    red_from=1,
                ),
                Panel(
                    "Under-replicated",
                    "Partitions with a replica that is not in sync.",
                    [Query("max(goqueue_cluster_under_replicated_partitions)", "partitions")],
                    red_from=1,
                ),
            ],
        ),
        Row(
            "Replication",
            [
                Panel(
                    "Lag",
                    "How long ago a follower had all of the partition in which it is farthest"
                    " behind.",
                    [
                        Query(
                            "max by (follower) (goqueue_replication_lag_seconds)",
                            "node {{follower}}",
                        )
                    ],
                    unit="s",
                    red_from=10,
                ),
                Panel(
                    "Offsets behind",
                    "Offsets that a follower lacks, of all partitions.",
                    [
                        Query(
                            "sum by (follower) (goqueue_replication_lag_offsets)",
                            "node {{follower}}",
                        )
                    ],
                ),
                Panel(
                    "Changes of the ISR",
                    "Replicas that fell out of sync and came back, as each node saw it.",
                    [
                        Query(f"max(increase(goqueue_isr_shrinks_total[{RATE}]))", "out"),
                        Query(f"max(increase(goqueue_isr_expands_total[{RATE}]))", "in"),
                    ],
                ),
                Panel(
                    "Elections of leaders",
                    "Unclean ones may have lost records.",
                    [
                        Query(
                            f"max by (type) (increase(goqueue_leader_elections_total[{RATE}]))",
                            "{{type}}",
                        )
                    ],
                ),
                Panel(
                    "Moves of replicas",
                    "Partitions whose replicas move, and bytes left to copy.",
                    [
                        Query("max(goqueue_cluster_reassigning_partitions)", "partitions"),
                        Query("sum(goqueue_reassignment_left_bytes)", "bytes left"),
                    ],
                ),
                Panel(
                    "Bytes copied by moves",
                    "A second, sent and received.",
                    [
                        Query(
                            rate("goqueue_reassignment_bytes_total", "direction", ""),
                            "{{direction}}",
                        )
                    ],
                    unit="Bps",
                ),
            ],
        ),
        Row(
            "Nodes",
            [
                Panel(
                    "Nodes",
                    "Fenced ones do not answer.",
                    [Query("max by (state) (goqueue_cluster_nodes)", "{{state}}")],
                ),
                Panel(
                    "Leaders",
                    "Partitions that each node leads.",
                    [Query("goqueue_cluster_led_partitions", "{{instance}}")],
                ),
                Panel(
                    "Replicas",
                    "Replicas that each node has.",
                    [Query("goqueue_cluster_replicas", "{{instance}}")],
                ),
                Panel(
                    "Not with their preferred leader",
                    "`goqueue cluster rebalance` brings them back.",
                    [Query("max(goqueue_cluster_not_preferred_partitions)", "partitions")],
                ),
                Panel(
                    "Controller and coordinators",
                    "Nodes that decide the metadata: one.  Nodes that coordinate groups and"
                    " transactions.",
                    [
                        Query("sum(goqueue_cluster_controller)", "controllers"),
                        Query("sum by (of) (goqueue_cluster_coordinator)", "{{of}}"),
                        Query("sum by (kind) (goqueue_coordinator_shards)", "{{kind}} shards"),
                    ],
                ),
                Panel(
                    "Nodes that stopped answering",
                    "As each node saw it.",
                    [Query(f"max(increase(goqueue_node_fences_total[{RATE}]))", "fenced")],
                ),
            ],
        ),
    ],
)

"""Topics, and the groups that read them."""

from typing import Final

from tools.grafana.expressions import PAIR, TOPIC, quantiles, rate, total
from tools.grafana.panels import RATE, Dashboard, Panel, Query, Row

TOPICS: Final = Dashboard(
    uid="goqueue-topics",
    title="GoQueue / Topics and groups",
    meaning="Who writes and reads what, how far groups are behind, and what takes long.",
    variables={"topic": "goqueue_log_end_offset", "group": "goqueue_group_members"},
    rows=[
        Row(
            "Topics",
            [
                Panel(
                    "Messages in",
                    "Messages written a second.",
                    [Query(rate("goqueue_messages_published_total", "topic", TOPIC), "{{topic}}")],
                    unit="cps",
                ),
                Panel(
                    "Messages out",
                    "Messages read a second.",
                    [Query(rate("goqueue_messages_consumed_total", "topic", TOPIC), "{{topic}}")],
                    unit="cps",
                ),
                Panel(
                    "Size on disk",
                    "Bytes of log in the open partitions; replicas count.",
                    [Query(total("goqueue_log_size_bytes", "topic", TOPIC), "{{topic}}")],
                    unit="bytes",
                ),
                Panel(
                    "Bytes in",
                    "Bytes of record batches written a second.",
                    [Query(rate("goqueue_bytes_published_total", "topic", TOPIC), "{{topic}}")],
                    unit="Bps",
                ),
                Panel(
                    "Bytes out",
                    "Bytes read a second.",
                    [Query(rate("goqueue_bytes_consumed_total", "topic", TOPIC), "{{topic}}")],
                    unit="Bps",
                ),
                Panel(
                    "Publish to persist",
                    "Time from when a message was received until it was durable.",
                    quantiles("goqueue_message_publish_seconds", "topic", TOPIC),
                    unit="s",
                ),
                Panel(
                    "Delayed messages",
                    "Those that wait for their time.",
                    [Query(total("goqueue_delayed_messages", "topic", TOPIC), "{{topic}}")],
                ),
                Panel(
                    "Lateness of delayed messages",
                    "Time from when a message was due until readers could see it.",
                    quantiles("goqueue_delayed_message_lateness_seconds"),
                    unit="s",
                    red_from=1,
                ),
                Panel(
                    "Transactions",
                    "Open ones, and the age of the oldest: it delays `read_committed` readers.",
                    [
                        Query("sum(goqueue_transactions_open)", "open"),
                        Query("max(goqueue_transactions_oldest_age_seconds)", "oldest, seconds"),
                    ],
                ),
            ],
        ),
        Row(
            "Groups",
            [
                Panel(
                    "Lag",
                    "Offsets that a group has not committed yet.",
                    [
                        Query(
                            total("goqueue_consumer_lag", "group, topic", PAIR),
                            "{{group}} {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Age of the oldest unfinished message",
                    "The figure to alarm on: whatever the rate, nobody should wait longer.",
                    [
                        Query(
                            f"max by (group, topic) (goqueue_consumer_lag_seconds{{{PAIR}}})",
                            "{{group}} {{topic}}",
                        )
                    ],
                    unit="s",
                    red_from=300,
                ),
                Panel(
                    "Members",
                    "Consumers of each group.",
                    [Query('sum by (group) (goqueue_group_members{group=~"$group"})', "{{group}}")],
                ),
                Panel(
                    "Persist to first delivery",
                    "How long messages lie before a group gets them.",
                    quantiles("goqueue_message_first_delivery_seconds", "group, topic", PAIR),
                    unit="s",
                ),
                Panel(
                    "Delivery to ack",
                    "How long consumers work on messages, or wait with the commit.",
                    quantiles("goqueue_message_ack_seconds", "group, topic", PAIR),
                    unit="s",
                ),
                Panel(
                    "End to end",
                    "Time from when a message was received until a group had finished it.",
                    quantiles("goqueue_message_end_to_end_seconds", "group, topic", PAIR),
                    unit="s",
                ),
                Panel(
                    "Rebalances",
                    "What led to rebalances, a second.",
                    [
                        Query(
                            rate("goqueue_rebalances_total", "group, reason", 'group=~"$group"'),
                            "{{group}} {{reason}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Time of rebalances",
                    "From the first cause until every member has what it should.",
                    quantiles("goqueue_rebalance_latency_seconds"),
                    unit="s",
                ),
                Panel(
                    "Lost members",
                    "Members that were silent for too long, or did not give partitions up in time.",
                    [
                        Query(f"sum(rate(goqueue_session_timeouts_total[{RATE}]))", "sessions"),
                        Query(
                            f"sum(rate(goqueue_revocation_timeouts_total[{RATE}]))", "revocations"
                        ),
                    ],
                    unit="cps",
                ),
            ],
        ),
    ],
)

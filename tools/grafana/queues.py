"""Queues and dead letters."""

from typing import Final

from tools.grafana.expressions import PAIR, TOPIC, quantiles, rate, total
from tools.grafana.panels import Dashboard, Panel, Query, Row

QUEUES: Final = Dashboard(
    uid="goqueue-queues",
    title="GoQueue / Queues and dead letters",
    meaning="Backlogs, work in progress, what fails, and what nobody could work on.",
    variables={"topic": "goqueue_queue_ready", "group": "goqueue_queue_ready"},
    rows=[
        Row(
            "Backlog",
            [
                Panel(
                    "Ready",
                    "Messages that can be delivered now.",
                    [
                        Query(
                            total("goqueue_queue_ready", "group, topic", PAIR),
                            "{{group}} {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "In flight",
                    "Messages that consumers hold.",
                    [
                        Query(
                            total("goqueue_queue_in_flight", "group, topic", PAIR),
                            "{{group}} {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Waiting",
                    "Messages that wait for a retry or for their key.",
                    [
                        Query(
                            total("goqueue_queue_waiting", "group, topic", PAIR),
                            "{{group}} {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Age of the oldest ready message",
                    "By priority: background work may wait, critical work may not.",
                    [
                        Query(
                            "max by (group, topic, priority)"
                            f" (goqueue_queue_oldest_seconds{{{PAIR}}})",
                            "{{group}} {{topic}} {{priority}}",
                        )
                    ],
                    unit="s",
                    red_from=300,
                ),
                Panel(
                    "Deliveries",
                    "Deliveries a second by priority.",
                    [
                        Query(
                            rate("goqueue_messages_delivered_total", "group, priority", PAIR),
                            "{{group}} {{priority}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Delivery to ack",
                    "How long consumers work on a message.",
                    quantiles("goqueue_message_ack_seconds", "group, topic", PAIR),
                    unit="s",
                ),
            ],
        ),
        Row(
            "What becomes of deliveries",
            [
                Panel(
                    "Acked",
                    "Messages that were finished, a second.",
                    [Query(rate("goqueue_messages_acked_total", "group", PAIR), "{{group}}")],
                    unit="cps",
                ),
                Panel(
                    "Failed",
                    "Nacked, timed out or rejected, a second.",
                    [
                        Query(
                            rate("goqueue_messages_nacked_total", "group", PAIR), "{{group}} nacked"
                        ),
                        Query(
                            rate("goqueue_messages_timed_out_total", "group", PAIR),
                            "{{group}} timed out",
                        ),
                        Query(
                            rate("goqueue_messages_rejected_total", "group", PAIR),
                            "{{group}} rejected",
                        ),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Retries",
                    "Deliveries that were not a message's first, a second.",
                    [Query(rate("goqueue_messages_retried_total", "group", PAIR), "{{group}}")],
                    unit="cps",
                ),
                Panel(
                    "Past their time to live",
                    "Messages that expired, or were dropped, a second.",
                    [
                        Query(
                            rate("goqueue_messages_expired_total", "group", PAIR),
                            "{{group}} expired",
                        ),
                        Query(
                            rate("goqueue_messages_dropped_total", "group", PAIR),
                            "{{group}} dropped",
                        ),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Given back",
                    "Deliveries that were released without a failure, a second.",
                    [Query(rate("goqueue_messages_released_total", "group", PAIR), "{{group}}")],
                    unit="cps",
                ),
                Panel(
                    "Time of a receive",
                    "Waits for messages included.",
                    quantiles("goqueue_receive_seconds"),
                    unit="s",
                ),
            ],
        ),
        Row(
            "Dead letters",
            [
                Panel(
                    "Dead letters",
                    "Those that are there now, by the topic that they come from.",
                    [Query(total("goqueue_dead_letters", "topic", TOPIC), "{{topic}}")],
                    red_from=1,
                ),
                Panel(
                    "Messages that became dead letters",
                    "A second, by reason.",
                    [
                        Query(
                            rate("goqueue_messages_dead_lettered_total", "topic, reason", PAIR),
                            "{{topic}} {{reason}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Dead letters that cannot be written",
                    "They stay in their topic until they can.",
                    [Query(total("goqueue_dead_letters_unplaced", "topic", TOPIC), "{{topic}}")],
                    red_from=1,
                ),
            ],
        ),
    ],
)

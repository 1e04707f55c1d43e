"""Is it well?"""

from typing import Final

from tools.grafana.expressions import NODE, quantiles, rate, total
from tools.grafana.panels import RATE, Dashboard, Panel, Query, Row, quantile

OVERVIEW: Final = Dashboard(
    uid="goqueue-overview",
    title="GoQueue / Overview",
    meaning="Is it well?  What goes in and out, how long that takes, and what the nodes need.",
    variables={"instance": "goqueue_uptime_seconds"},
    rows=[
        Row(
            "Is it well?",
            [
                Panel(
                    "Nodes that answer",
                    "Servers that Prometheus can scrape.",
                    [Query("count(goqueue_uptime_seconds)", "nodes")],
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Offline partitions",
                    "Partitions that nobody leads: neither reads nor writes.",
                    [Query("max(goqueue_cluster_offline_partitions)", "partitions")],
                    kind="stat",
                    width=4,
                    red_from=1,
                ),
                Panel(
                    "Under-replicated",
                    "Partitions with a replica that is not in sync.",
                    [Query("max(goqueue_cluster_under_replicated_partitions)", "partitions")],
                    kind="stat",
                    width=4,
                    red_from=1,
                ),
                Panel(
                    "Read-only partitions",
                    "Open partitions that take no writes since the disk failed.",
                    [Query("sum(goqueue_partitions_read_only)", "partitions")],
                    kind="stat",
                    width=4,
                    red_from=1,
                ),
                Panel(
                    "Oldest unfinished message",
                    "The age of the oldest message that a group has not acked or committed.",
                    [Query("max(goqueue_consumer_lag_seconds)", "age")],
                    unit="s",
                    kind="stat",
                    width=4,
                    red_from=300,
                ),
                Panel(
                    "Dead letters",
                    "Messages that wait in dead letter topics.",
                    [Query("sum(goqueue_dead_letters)", "messages")],
                    kind="stat",
                    width=4,
                    red_from=1,
                ),
            ],
        ),
        Row(
            "Traffic",
            [
                Panel(
                    "Messages",
                    "Messages written and read a second, of all topics.",
                    [
                        Query(
                            f"sum(rate(goqueue_messages_published_total{{{NODE}}}[{RATE}]))", "in"
                        ),
                        Query(
                            f"sum(rate(goqueue_messages_consumed_total{{{NODE}}}[{RATE}]))", "out"
                        ),
                        Query(
                            f"sum(rate(goqueue_messages_delivered_total{{{NODE}}}[{RATE}]))",
                            "queue deliveries",
                        ),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Bytes",
                    "Bytes of record batches written and read a second.",
                    [
                        Query(f"sum(rate(goqueue_bytes_published_total{{{NODE}}}[{RATE}]))", "in"),
                        Query(f"sum(rate(goqueue_bytes_consumed_total{{{NODE}}}[{RATE}]))", "out"),
                    ],
                    unit="Bps",
                ),
                Panel(
                    "Refused messages and throttled requests",
                    "By the error's code, and by quota.",
                    [
                        Query(
                            rate("goqueue_messages_failed_total", "error_type", NODE),
                            "{{error_type}}",
                        ),
                        Query(
                            rate("goqueue_throttled_requests_total", "quota", NODE),
                            "throttled: {{quota}}",
                        ),
                    ],
                    unit="cps",
                ),
            ],
        ),
        Row(
            "How long it takes",
            [
                Panel(
                    "Publish to persist",
                    "Time from when a message was received until it was durable on all replicas in"
                    " sync.",
                    quantiles("goqueue_message_publish_seconds", where=NODE),
                    unit="s",
                ),
                Panel(
                    "End to end",
                    "Time from when a message was received until a group had finished it.",
                    quantiles("goqueue_message_end_to_end_seconds", where=NODE),
                    unit="s",
                ),
                Panel(
                    "Flush to disk",
                    "Time of one fsync.",
                    quantiles("goqueue_fsync_latency_seconds", where=NODE),
                    unit="s",
                    red_from=0.1,
                ),
                Panel(
                    "Kafka requests",
                    "Time from a request's last byte to its answer, waits included.",
                    [
                        Query(
                            quantile(0.99, "goqueue_kafka_request_seconds", "api", NODE),
                            "{{api}} p99",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "HTTP requests",
                    "Time from a request's head to the end of its answer, waits included.",
                    [
                        Query(
                            quantile(0.99, "goqueue_http_request_seconds", "route", NODE),
                            "{{route}} p99",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "HTTP answers",
                    "By status.",
                    [
                        Query(
                            rate("goqueue_http_request_seconds_count", "status", NODE), "{{status}}"
                        )
                    ],
                    unit="cps",
                ),
            ],
        ),
        Row(
            "What nodes need",
            [
                Panel(
                    "Memory",
                    "Resident memory of the process.",
                    [Query(f"process_resident_memory_bytes{{{NODE}}}", "{{instance}}")],
                    unit="bytes",
                ),
                Panel(
                    "Processor",
                    "Cores in use; a node uses little more than one.",
                    [Query(f"rate(process_cpu_seconds_total{{{NODE}}}[{RATE}])", "{{instance}}")],
                    unit="percentunit",
                ),
                Panel(
                    "Event loop",
                    "How late timers of the event loop are: everything waits that long.",
                    [
                        Query(
                            quantile(0.99, "goqueue_event_loop_lag_seconds", "instance", NODE),
                            "{{instance}} p99",
                        )
                    ],
                    unit="s",
                    red_from=0.1,
                ),
                Panel(
                    "Free disk",
                    "Room on the file system of the data directory; below the minimum writes are"
                    " refused.",
                    [
                        Query(f"goqueue_disk_free_bytes{{{NODE}}}", "{{instance}}"),
                        Query(f"max(goqueue_disk_free_bytes_min{{{NODE}}})", "minimum"),
                    ],
                    unit="bytes",
                ),
                Panel(
                    "Connections",
                    "Open connections by listener.",
                    [Query(total("goqueue_active_connections", "listener", NODE), "{{listener}}")],
                ),
                Panel(
                    "Files and partitions",
                    "Open file descriptors of the process, and open partitions.",
                    [
                        Query(f"process_open_fds{{{NODE}}}", "{{instance}} files"),
                        Query(total("goqueue_open_partitions", "instance", NODE), "{{instance}}"),
                    ],
                ),
            ],
        ),
    ],
)

"""Spark's pipelines: scraped at `goqueue pipeline serve`, not at the broker."""

from typing import Final

from tools.grafana.panels import RATE, Dashboard, Panel, Query, Row

QUERY: Final = 'query=~"$query"'

PIPELINES: Final = Dashboard(
    uid="goqueue-pipelines",
    title="GoQueue / Spark pipelines",
    meaning="Pipelines of `goqueue pipeline serve`, which Prometheus scrapes by itself.",
    variables={"query": "goqueue_pipeline_rows_total"},
    rows=[
        Row(
            "Pipelines",
            [
                Panel(
                    "Running",
                    "1 while a pipeline runs.",
                    [Query("max by (pipeline) (goqueue_pipeline_up)", "{{pipeline}}")],
                ),
                Panel(
                    "Restarts",
                    "Starts after a failure.",
                    [
                        Query(
                            "sum by (pipeline)"
                            f" (increase(goqueue_pipeline_restarts_total[{RATE}]))",
                            "{{pipeline}}",
                        )
                    ],
                    red_from=1,
                ),
                Panel(
                    "Rows that were not as expected",
                    "A second, by expectation.",
                    [
                        Query(
                            "sum by (query, expectation)"
                            f" (rate(goqueue_pipeline_unmet_rows_total{{{QUERY}}}[{RATE}]))",
                            "{{query}} {{expectation}}",
                        )
                    ],
                    unit="cps",
                ),
            ],
        ),
        Row(
            "Queries",
            [
                Panel(
                    "Rows",
                    "Rows read a second.",
                    [
                        Query(
                            "sum by (query)"
                            f" (rate(goqueue_pipeline_rows_total{{{QUERY}}}[{RATE}]))",
                            "{{query}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Rows a second in the newest micro-batch",
                    "How fast Spark is when it works.",
                    [Query(f"goqueue_pipeline_rows_per_second{{{QUERY}}}", "{{query}}")],
                    unit="cps",
                ),
                Panel(
                    "Lag",
                    "Messages that are there and not read.",
                    [Query(f"goqueue_pipeline_lag_rows{{{QUERY}}}", "{{query}}")],
                ),
                Panel(
                    "Time of a micro-batch",
                    "How long the newest one took.",
                    [Query(f"goqueue_pipeline_batch_seconds{{{QUERY}}}", "{{query}}")],
                    unit="s",
                ),
            ],
        ),
    ],
)

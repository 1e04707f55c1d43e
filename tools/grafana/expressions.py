"""Expressions that several dashboards share.

Sums are over nodes: what a node counts or leads is its own.  What the metadata says is the same at
every node: there it is the maximum.
"""

from typing import Final

from tools.grafana.panels import RATE, Query, quantile

NODE: Final = 'instance=~"$instance"'
TOPIC: Final = 'topic=~"$topic"'
PAIR: Final = 'topic=~"$topic", group=~"$group"'


def rate(series: str, by: str, where: str) -> str:
    return f"sum by ({by}) (rate({series}{{{where}}}[{RATE}]))"


def total(series: str, by: str, where: str) -> str:
    return f"sum by ({by}) ({series}{{{where}}})"


def quantiles(histogram: str, by: str = "", where: str = "") -> list[Query]:
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(",")) if by else ""
    return [
        Query(quantile(share, histogram, by, where), f"{legend} p{share * 100:g}".strip())
        for share in (0.5, 0.99)
    ]

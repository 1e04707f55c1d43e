"""Consumer groups, as Prometheus sees them: made at a scrape, free of cost between scrapes.

A broker may have thousands of groups, most of them asleep.  So series with a group's name are kept
to a bound, groups with members first; `goqueue_groups_left_out` says how many had no room.  Sums
over all groups are always whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker
from goqueue.groups import DURATION_MS_BOUNDS, Durations, GroupListing
from goqueue.queue import GroupStats
from goqueue.server.group_lag import GroupLags

GROUPS_SHOWN_MAX: Final = 500


class GroupCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lags = GroupLags(broker)

    async def look(self, queues: Sequence[GroupStats]) -> None:
        """Learn how far groups are behind, for the next scrape."""
        is_coordinating = self._broker.groups.is_coordinating
        groups = _choose(self._broker.groups.list_groups()) if is_coordinating else ()
        await self._lags.look(groups, queues)

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._lags.families()
        if not self._broker.groups.is_coordinating:
            return  # another node tells
        found = self._broker.groups.list_groups()
        shown = _choose(found)
        yield _states(found)
        yield _gauge("groups_left_out", "Groups without series.", len(found) - len(shown))
        yield _by_group("group_members", "Members.", [(g, g.member_count) for g in shown])
        yield _by_group("group_generation", "Epoch of the group.", [(g, g.epoch) for g in shown])
        yield self._rebalances(shown)
        yield _latency(self._broker.groups.statistics.durations)
        yield from self._totals()

    def _rebalances(self, shown: Sequence[GroupListing]) -> Metric:
        family = CounterMetricFamily(
            "goqueue_rebalances", "What led to rebalances.", labels=["group", "reason"]
        )
        statistics = self._broker.groups.statistics.groups
        for each in shown:
            counted = statistics.get(each.group_id)
            for reason, count in counted.by_reason.items() if counted else ():
                family.add_metric([each.group_id, reason], count)
        return family

    def _totals(self) -> Iterator[Metric]:
        total = self._broker.groups.statistics.total
        commits = self._broker.groups.commit_count
        for name, meaning, value in (
            ("partitions_assigned", "Partitions given to members.", total.partitions_assigned),
            ("partitions_revoked", "Partitions that members gave up.", total.partitions_revoked),
            ("session_timeouts", "Members that were silent for too long.", total.sessions_expired),
            (
                "revocation_timeouts",
                "Members that did not give partitions up in time.",
                total.revocation_timeouts,
            ),
            ("offset_commits", "Offsets committed.", commits),
        ):
            yield CounterMetricFamily(f"goqueue_{name}", meaning, value=value)


def _choose(found: Sequence[GroupListing]) -> list[GroupListing]:
    """Those with members first."""
    ordered = sorted(found, key=lambda each: (not each.member_count, each.group_id))
    return ordered[:GROUPS_SHOWN_MAX]


def _states(found: Sequence[GroupListing]) -> Metric:
    counts: dict[str, int] = {}
    for each in found:
        counts[each.state] = counts.get(each.state, 0) + 1
    family = GaugeMetricFamily("goqueue_groups", "Groups by state.", labels=["state"])
    for state, count in sorted(counts.items()):
        family.add_metric([state], count)
    return family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"goqueue_{name}", meaning, value=value)


def _by_group(name: str, meaning: str, values: Iterable[tuple[GroupListing, int]]) -> Metric:
    family = GaugeMetricFamily(f"goqueue_{name}", meaning, labels=["group"])
    for group, value in values:
        family.add_metric([group.group_id], value)
    return family


def _latency(durations: Durations) -> Metric:
    family = HistogramMetricFamily(
        "goqueue_rebalance_latency_seconds",
        "From the first cause of a rebalance until every member has what it should.",
    )
    bounds = [*(str(bound / 1000) for bound in DURATION_MS_BOUNDS), "+Inf"]
    counts = accumulate(durations.counts)
    family.add_metric([], list(zip(bounds, counts, strict=True)), durations.sum_ms / 1000)
    return family

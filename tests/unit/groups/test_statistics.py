"""Counters of rebalances."""

import pytest

from goqueue.groups import GroupsConfig
from goqueue.groups.statistics import Durations, Statistics
from goqueue.model.ids import Timestamp
from tests.unit.groups.harness import GROUP, ConsumerClient, Host, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


def test_rebalances_are_counted_by_reason_and_timed(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    host.advance(700)
    settle(first, second)
    counters = host.machine.statistics.groups[GROUP]
    assert counters.by_reason == {"member joined": 2}
    assert counters.finished == 2
    assert counters.last_duration_ms == 700
    assert counters.partitions_revoked == 2
    assert counters.partitions_assigned == 6


def test_causes_that_come_while_a_rebalance_runs_prolong_it() -> None:
    statistics = Statistics()
    statistics.start_rebalance(GROUP, "member joined", Timestamp(100))
    statistics.start_rebalance(GROUP, "member left", Timestamp(150))
    statistics.finish_rebalance(GROUP, Timestamp(300))
    statistics.finish_rebalance(GROUP, Timestamp(900))
    for counters in (statistics.total, statistics.groups[GROUP]):
        assert (counters.started, counters.finished) == (1, 1)
        assert (counters.last_duration_ms, counters.last_finished_at) == (200, 300)
        assert counters.by_reason == {"member joined": 1, "member left": 1}


def test_the_average_leans_to_the_newest_duration() -> None:
    statistics = Statistics()
    for start, duration in ((0, 100), (1_000, 200)):
        statistics.start_rebalance(GROUP, "member joined", Timestamp(start))
        statistics.finish_rebalance(GROUP, Timestamp(start + duration))
    assert statistics.total.average_duration_ms == pytest.approx(130)
    assert statistics.durations.sum_ms == 300


@pytest.mark.parametrize(
    ("duration_ms", "place"), [(0, 0), (5, 0), (6, 1), (60_000, 12), (60_001, 13)]
)
def test_a_duration_counts_up_to_its_bound(duration_ms: int, place: int) -> None:
    durations = Durations()
    durations.add(duration_ms)
    assert [at for at, count in enumerate(durations.counts) if count] == [place]


def test_the_total_outlives_a_group() -> None:
    statistics = Statistics()
    statistics.start_rebalance(GROUP, "member joined", Timestamp(0))
    statistics.count_moved(GROUP, assigned=3, revoked=1)
    statistics.count_expired_session(GROUP)
    statistics.count_late_revocation(GROUP)
    statistics.forget(GROUP)
    statistics.finish_rebalance(GROUP, Timestamp(10))
    total = statistics.total
    assert (total.partitions_assigned, total.partitions_revoked) == (3, 1)
    assert (total.sessions_expired, total.revocation_timeouts, total.finished) == (1, 1, 0)
    assert statistics.groups == {}

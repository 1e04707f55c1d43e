"""What dashboards and alerts look at moves when a broker works; and promtool's own tests."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml

from goqueue.cli.samples import Samples
from tests.conformance.busy_broker import BusyBroker
from tests.conformance.server import Server
from tools import prometheus
from tools.grafana.dashboards import DASHBOARDS
from tools.grafana.panels import metrics_in

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus"
Eventually = Callable[..., None]

# Of clusters, faults and Spark's pipelines: other tests have them move.
ELSEWHERE = re.compile(
    r"goqueue_(cluster_(offline|under|reassigning|not_preferred)\w*|replication_lag\w*|isr_\w*"
    r"|leader_elections\w*|node_fences\w*|reassignment\w*|partitions_read_only|fsync_errors\w*"
    r"|dead_letters_unplaced|session_timeouts\w*|revocation_timeouts\w*|throttled\w*|pipeline_\w*"
    r"|certificate\w*|audit\w*|schedules_failing|schedule_runs_missed\w*|clock_offset\w*"
    r"|trace_events_dropped\w*|messages_dropped\w*)"
)


def wanted_metrics() -> set[str]:
    rules = yaml.safe_load((ALERTS / "alerts.yml").read_text())["groups"]
    expressions = [rule["expr"] for group in rules for rule in group["rules"]]
    expressions += [query.expression for board in DASHBOARDS for panel in board.panels
                    for query in panel.queries]  # fmt: skip
    every = set[str]().union(*map(metrics_in, expressions))
    return {name for name in every if not ELSEWHERE.fullmatch(name)}


def test_every_metric_of_dashboards_and_alerts_moves(own_server: Server, eventually: Eventually):
    broker = BusyBroker(f"http://{own_server.http_address}", own_server.address)
    still = wanted_metrics()

    def all_moved() -> bool:
        """A figure that was above zero once has moved."""
        text = httpx.get(f"http://{own_server.http_address}/metrics", trust_env=False).text
        samples = Samples(text)
        still.difference_update([name for name in still if samples.highest(name) > 0])
        return not still

    broker.do_everything()
    try:
        eventually(all_moved, within_s=30)
    except AssertionError:
        raise AssertionError(f"never above zero: {sorted(still)}") from None
    finally:
        broker.close()


@pytest.mark.slow  # fetches promtool where there is none
def test_alerts_fire_when_they_should():
    promtool = prometheus.fetch("promtool")
    for arguments in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = subprocess.run([promtool, *arguments], cwd=ALERTS, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_promtool_has_nothing_to_say_of_the_metrics(server: Server):
    text = httpx.get(f"http://{server.http_address}/metrics", trust_env=False).content
    done = subprocess.run(
        [prometheus.fetch("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()

"""Dashboards and alerts name metrics that exist, and each alert has a case and a row to act by."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.grafana.__main__ import TARGET, files
from tools.grafana.dashboards import DASHBOARDS
from tools.grafana.panels import Panel, metrics_in

ROOT = Path(__file__).parents[2]
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
CASES = yaml.safe_load((ROOT / "deploy/prometheus/alerts_test.yml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [(board.uid, panel) for board in DASHBOARDS for panel in board.panels]
OF_HISTOGRAMS = re.compile(r"_(bucket|sum|count)$")
OF_THE_PROCESS = re.compile(r"process_|python_")


def known_metrics() -> set[str]:
    """As the reference page lists them; another test says that it is current."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    return set(re.findall(r"^\| `(goqueue_\w+)`", page, re.MULTILINE))


def unknown(expression: str) -> set[str]:
    known = known_metrics()
    return {
        name
        for name in metrics_in(expression)
        if not OF_THE_PROCESS.match(name)
        and name not in known
        and OF_HISTOGRAMS.sub("", name) not in known
    }


def test_dashboard_files_are_current():
    stale = [
        name
        for name, text in files().items()
        if not (TARGET / name).exists() or (TARGET / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, f"`make docs` writes deploy/grafana again: {', '.join(stale)}"
    assert {path.name for path in TARGET.glob("*.json")} == set(files())


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda each: getattr(each, "title", each))
def test_a_panel_names_metrics_that_exist(board: str, panel: Panel):
    assert panel.meaning.endswith((".", "…"))
    for query in panel.queries:
        assert metrics_in(query.expression), query.expression
        assert not unknown(query.expression), f"{board}: {panel.title}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_names_metrics_that_exist_and_says_what_is_wrong(rule: dict[str, Any]):
    assert not unknown(rule["expr"])
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]


def test_each_alert_has_a_case_in_which_it_is_quiet_and_one_in_which_it_fires():
    """`make alerts` has promtool run them."""
    fires, is_quiet = set[str](), set[str]()
    for case in CASES["tests"]:
        for check in case["alert_rule_test"]:
            (fires if check.get("exp_alerts") else is_quiet).add(check["alertname"])
    alerts = {rule["alert"] for rule in RULES}
    assert fires == alerts
    assert alerts - is_quiet <= {"GoQueueCertificateExpires"}


def test_the_runbook_says_what_to_do_at_each_alert():
    rows = re.findall(
        r"^\| `(GoQueue\w+)` \|", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(rule["alert"] for rule in RULES)

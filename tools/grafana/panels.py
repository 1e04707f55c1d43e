"""Panels and dashboards as data, and as the JSON that Grafana imports."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

WIDTH: Final = 24  # of Grafana's grid
HEIGHT: Final = 8
SCHEMA_VERSION: Final = 39  # Grafana 10; later ones migrate it
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
RATE: Final = "$__rate_interval"

Kind = Literal["timeseries", "stat", "bargauge"]
Unit = Literal["s", "bytes", "Bps", "short", "cps", "percentunit"]


class Query(msgspec.Struct, frozen=True):
    expression: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True):
    """A question that a panel answers, and how."""

    title: str
    meaning: str
    queries: list[Query]
    unit: Unit = "short"
    kind: Kind = "timeseries"
    width: int = 8
    red_from: float | None = None
    """A value from which on somebody should look."""


class Row(msgspec.Struct, frozen=True):
    title: str
    panels: list[Panel]


class Dashboard(msgspec.Struct, frozen=True):
    uid: str
    title: str
    meaning: str
    rows: list[Row]
    variables: dict[str, str] = {}
    """Names of variables, and the series whose labels of that name are chosen from."""

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]

    def text(self) -> str:
        return json.dumps(self._json(), indent=1, ensure_ascii=False) + "\n"

    def _json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.meaning,
            "tags": ["goqueue"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "",
            "annotations": {"list": []},
            "links": [
                {
                    "type": "dashboards",
                    "tags": ["goqueue"],
                    "title": "GoQueue",
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "templating": {"list": list(self._variables())},
            "panels": list(self._panels()),
        }

    def _variables(self) -> Iterator[dict[str, Any]]:
        yield {
            "name": "datasource",
            "label": "Prometheus",
            "type": "datasource",
            "query": "prometheus",
        }
        for name, series in self.variables.items():
            query = f"label_values({series}, {name})"
            yield {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": DATASOURCE,
                "definition": query,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all", "selected": True},
            }

    def _panels(self) -> Iterator[dict[str, Any]]:
        number, y = 1, 0
        for row in self.rows:
            at = {"x": 0, "y": y, "w": WIDTH, "h": 1}
            yield {"id": number, "type": "row", "title": row.title, "gridPos": at, "panels": []}
            number, x, y = number + 1, 0, y + 1
            for panel in row.panels:
                if x + panel.width > WIDTH:
                    x, y = 0, y + HEIGHT
                at = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
                yield {"id": number, "gridPos": at, **_body(panel)}
                number, x = number + 1, x + panel.width
            y += HEIGHT


def _body(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        style = "off" if panel.red_from is None else "line"
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 8,
            "showPoints": "never",
            "thresholdsStyle": {"mode": style},
        }
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "exemplar": "_bucket" in query.expression,
                "editorMode": "code",
                "range": True,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """Of a histogram in Prometheus' own form."""
    labels = f"le, {by}" if by else "le"
    rates = f"rate({histogram}_bucket{{{where}}}[{RATE}])"
    return f"histogram_quantile({share:g}, sum by ({labels}) ({rates}))"


METRIC: Final = re.compile(r"\b(?:goqueue|process|python)_[a-z0-9_]+")


def metrics_in(expression: str) -> set[str]:
    """The names of the series that an expression reads."""
    return set(METRIC.findall(expression))

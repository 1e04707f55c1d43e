"""Panels of a dashboard as one SVG."""

import html
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tools.grafana.panels import Dashboard, Panel, Row

WIDTH: Final = 1200
PANEL_HEIGHT: Final = 190
STAT_HEIGHT: Final = 90
TITLE_HEIGHT: Final = 30
GAP: Final = 8
LEFT: Final = 52
COLOURS: Final = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#b877d9")
STYLE: Final = """<style>
text { font-family: Inter, Helvetica, sans-serif; font-size: 11px; fill: #ccccdc; }
.title { font-size: 12px; font-weight: 600; } .row { font-size: 14px; font-weight: 600; }
.axis { font-size: 10px; fill: #8e8e99; } .stat { font-size: 30px; font-weight: 600; }
.legend { font-size: 10px; fill: #b4b7c4; }
</style>"""


class Curve(NamedTuple):
    legend: str
    points: Sequence[tuple[float, float]]  # seconds since 1970, value


def draw_panels(board: Dashboard, curves: Mapping[str, Sequence[Curve]]) -> str:
    y, parts = 40.0, [f'<text x="12" y="25" class="row">{html.escape(board.title)}</text>']
    for row in board.rows:
        parts.append(f'<text x="12" y="{y + 18}" class="row">▾ {html.escape(row.title)}</text>')
        y += TITLE_HEIGHT
        for panel, x, down, width, height in _places(row):
            drawn = "".join(_panel(panel, curves[panel.title], width, height))
            parts.append(f'<g transform="translate({x:.0f},{y + down:.0f})">{drawn}</g>')
        y += _row_height(row)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}">{STYLE}'
    return f'{head}<rect width="{WIDTH}" height="{y:.0f}" fill="#111217"/>{"".join(parts)}</svg>\n'


def _row_height(row: Row) -> float:
    return max(down + height + GAP for _, _, down, _, height in _places(row))


def _places(row: Row) -> Iterator[tuple[Panel, float, float, float, float]]:
    x, down = 0, 0.0
    for panel in row.panels:
        height = STAT_HEIGHT if panel.kind == "stat" else PANEL_HEIGHT
        if x + panel.width > 24:
            x, down = 0, down + height + GAP
        unit = WIDTH / 24
        yield panel, x * unit + GAP / 2, down, panel.width * unit - GAP, height
        x += panel.width


def _panel(panel: Panel, curves: Sequence[Curve], width: float, height: float) -> Iterator[str]:
    yield f'<rect width="{width:.0f}" height="{height}" rx="3" fill="#181b1f" stroke="#24272e"/>'
    yield f'<text x="10" y="18" class="title">{html.escape(panel.title)}</text>'
    if panel.kind == "stat":
        last = curves[0].points[-1][1] if curves and curves[0].points else 0.0
        is_red = panel.red_from is not None and last >= panel.red_from
        fill = "#f2495c" if is_red else "#73bf69"
        text = html.escape(_value(last, panel.unit))
        middle = width / 2
        yield f'<text x="{middle:.0f}" y="64" text-anchor="middle" class="stat" fill="{fill}"'
        yield f' style="fill:{fill}">{text}</text>'
        return
    yield from _curves(panel, [each for each in curves if each.points], width, height)


def _curves(panel: Panel, curves: Sequence[Curve], width: float, height: float) -> Iterator[str]:
    if not curves:
        yield f'<text x="{width / 2:.0f}" y="{height / 2:.0f}" text-anchor="middle">0</text>'
        return
    first = min(each.points[0][0] for each in curves)
    last = max(each.points[-1][0] for each in curves)
    top = max(value for each in curves for _, value in each.points) * 1.1 or 1.0
    low, bottom, right = 30, height - 44, width - 12
    for quarter in range(5):
        y = bottom - quarter / 4 * (bottom - low)
        yield f'<line x1="{LEFT}" x2="{right:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#24272e"/>'
        text = html.escape(_value(top * quarter / 4, panel.unit))
        yield f'<text x="{LEFT - 5}" y="{y + 3:.1f}" text-anchor="end" class="axis">{text}</text>'
    for at, anchor, x in ((first, "start", LEFT), (last, "end", right)):
        text = time.strftime("%H:%M:%S", time.gmtime(at))
        yield f'<text x="{x:.0f}" y="{bottom + 13:.0f}" text-anchor="{anchor}" class="axis">'
        yield f"{text}</text>"
    for number, curve in enumerate(curves):
        places = " ".join(
            f"{LEFT + (at - first) / ((last - first) or 1) * (right - LEFT):.1f},"
            f"{bottom - value / top * (bottom - low):.1f}"
            for at, value in curve.points
        )
        colour = COLOURS[number % len(COLOURS)]
        yield f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield from _legend(curves, width, height)


def _legend(curves: Sequence[Curve], width: float, height: float) -> Iterator[str]:
    x, y = 10.0, height - 18
    for number, curve in enumerate(curves):
        text = curve.legend or "value"
        size = len(text) * 5.6 + 22
        if x + size > width and x > 10:
            x, y = 10.0, y + 13
            if y > height - 3:
                return
        colour = COLOURS[number % len(COLOURS)]
        yield f'<rect x="{x:.0f}" y="{y - 6:.0f}" width="10" height="3" fill="{colour}"/>'
        yield f'<text x="{x + 14:.0f}" y="{y:.0f}" class="legend">{html.escape(text)}</text>'
        x += size


def _value(value: float, unit: str) -> str:
    match unit:
        case "s":
            for bound, name in ((60, "min"), (1, "s"), (1e-3, "ms")):
                scale = 60 if name == "min" else bound
                if value >= bound:
                    return f"{value / scale:.3g} {name}"
            return "0 s" if value == 0 else f"{value * 1e6:.0f} µs"
        case "bytes" | "Bps":
            end = "B" if unit == "bytes" else "B/s"
            for scale, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
                if value >= scale:
                    return f"{value / scale:.3g} {name}{end}"
            return f"{value:.3g} {end}"
        case "percentunit":
            return f"{value * 100:.3g} %"
        case _:
            scale, name = (1e3, "k") if value >= 1e3 else (1, "")
            return f"{value / scale:.3g}{name}" + ("/s" if unit == "cps" else "")

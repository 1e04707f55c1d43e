"""Charts as SVG text.  Colours are classes, so that the page's style decides on them."""

import datetime
import html
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 200
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 10, 24  # room for what stands beside the axes
BAR_HEIGHT: Final = 22
LABEL_WIDTH: Final = 220
STEPS: Final = (1, 2, 2.5, 5, 10)

Point = tuple[datetime.datetime, float]


def lines(series: Sequence[tuple[str, Sequence[Point]]], unit: str, *, filled: bool) -> str:
    """Values over time, one line a series; `filled` paints what is below."""
    times = [at for _, points in series for at, _ in points]
    if not times:
        return ""
    first, last = min(times), max(times)
    span = (last - first).total_seconds() or 1.0
    top = nice_top(max(value for _, points in series for _, value in points))

    def place(point: Point) -> tuple[float, float]:
        across = (point[0] - first).total_seconds() / span
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - point[1] / top * (HEIGHT - TOP - BOTTOM),
        )

    drawn = [_grid(top, unit), _times(first, last)]
    for number, (name, points) in enumerate(series):
        places = [place(point) for point in points]
        drawn.append(_line(places, number, name, filled=filled))
    return _svg(HEIGHT, drawn, f"{', '.join(name for name, _ in series)} over time")


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """A bar a row: label, value, what to write beside the bar."""
    if not rows:
        return ""
    top = max(value for _, value, _ in rows) or 1.0
    room = WIDTH - LABEL_WIDTH - 130
    drawn = []
    for number, (label, value, text) in enumerate(rows):
        y = number * BAR_HEIGHT
        width = max(1.0, value / top * room)
        drawn.append(
            f'<text class="label" x="{LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end">'
            f"{html.escape(_short(label))}</text>"
            f'<rect class="series-0" x="{LABEL_WIDTH}" y="{y + 4}" width="{width:.1f}"'
            f' height="{BAR_HEIGHT - 8}" rx="2"/>'
            f'<text class="value" x="{LABEL_WIDTH + width + 6:.1f}" y="{y + 15}">'
            f"{html.escape(text)}</text>"
        )
    return _svg(len(rows) * BAR_HEIGHT, drawn, "bars")


def nice_top(value: float) -> float:
    """A round number at or above the value."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in STEPS if step * power >= value)


def short_number(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _svg(height: int, drawn: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">'
        f"{''.join(drawn)}</svg>"
    )


def _grid(top: float, unit: str) -> str:
    drawn = []
    for quarter in range(5):
        y = HEIGHT - BOTTOM - quarter / 4 * (HEIGHT - TOP - BOTTOM)
        text = html.escape(short_number(top * quarter / 4) + (unit if quarter == 4 else ""))
        drawn.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )
    return "".join(drawn)


def _times(first: datetime.datetime, last: datetime.datetime) -> str:
    pattern = "%H:%M:%S" if last - first < datetime.timedelta(days=1) else "%m-%d %H:%M"
    middle = first + (last - first) / 2
    places = [(LEFT, "start", first), ((LEFT + WIDTH - RIGHT) / 2, "middle", middle)]
    places.append((WIDTH - RIGHT, "end", last))
    return "".join(
        f'<text class="axis" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
        f"{at.strftime(pattern)}</text>"
        for x, anchor, at in places
    )


def _line(places: Sequence[tuple[float, float]], number: int, name: str, *, filled: bool) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    floor = HEIGHT - BOTTOM
    title = f"<title>{html.escape(name)}</title>"
    if len(places) == 1:
        x, y = places[0]
        return f'<circle class="series-{number}" cx="{x:.1f}" cy="{y:.1f}" r="3">{title}</circle>'
    area = ""
    if filled:
        around = f"{places[0][0]:.1f},{floor} {path} {places[-1][0]:.1f},{floor}"
        area = f'<polygon class="area-{number}" points="{around}"/>'
    return f'{area}<polyline class="line-{number}" points="{path}">{title}</polyline>'


def _short(label: str, length: int = 34) -> str:
    return label if len(label) <= length else label[: length - 1] + "…"

from rich.console import Console

from goqueue.cli.top_figures import GroupFigures, NodeFigures, TopFigures, TopicFigures
from goqueue.cli.top_screen import draw, duration, number

FIGURES = TopFigures(
    "2026-11-16T12:00:00.000+00:00",
    2.0,
    [NodeFigures(1, "active", 1234.5, 10, 1e6, 1e6, 0.42, 10**8, 7, 3, 0.002)],
    [TopicFigures("orders", 1234.5, 10, 1e6, 0.0042, 2, 5)],
    [GroupFigures("billing", "orders", 120, 75.0, 4, 9.5, 0.5, None)],
    [2],
)


def test_nodes_topics_and_groups_are_drawn():
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(draw(FIGURES))
    text = console.export_text()
    for part in ("1,234", "42%", "orders", "4.2ms", "billing", "1m15s", "do not answer: 2"):
        assert part in text, part


def test_numbers_have_few_digits():
    assert [number(each) for each in (0, 0.25, 9.96, 12, 12345.6)] == [
        "0",
        "0.2",
        "10.0",
        "12",
        "12,346",
    ]
    assert (duration(None), duration(0.0042)) == ("-", "4.2ms")

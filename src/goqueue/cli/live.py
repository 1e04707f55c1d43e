"""A view that is redrawn until ctrl-c: in place at a terminal, one after the other elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.cli.output import for_people, show_value

if TYPE_CHECKING:
    from rich.console import RenderableType

View = tuple[object, "RenderableType"]  # for programs, and for people


def watch(look: "Callable[[], View]", interval_seconds: float) -> None:
    """Never returns: `look` says what there is to see now."""
    if for_people():
        _watch_in_place(look, interval_seconds)
    while True:
        value, _ = look()
        show_value(value)
        sys.stdout.flush()
        time.sleep(interval_seconds)


def _watch_in_place(look: "Callable[[], View]", interval_seconds: float) -> None:
    from rich.live import Live

    with Live(look()[1], auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(interval_seconds)
            live.update(look()[1], refresh=True)

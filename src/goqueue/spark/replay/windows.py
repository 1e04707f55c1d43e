"""A replay in pieces, so that no transaction is too large and a crash costs one piece at most.

Window `k` holds the offsets from `k * size` on of every partition, as far as they belong to the
replay.  Windows are written in order, each as version `k` of the replay: so the messages of a
partition keep their order, and a window that is written is never written again.
"""

from collections.abc import Iterator, Mapping

import msgspec


class Span(msgspec.Struct, frozen=True):
    """Offsets of a partition: from `start` up to, not with, `end`."""

    start: int
    end: int


Spans = Mapping[int, Span]


class Window(msgspec.Struct, frozen=True):
    number: int
    spans: dict[int, Span]  # what it has of each partition that it has anything of


def windows(spans: Spans, size: int, *, after: int = -1) -> Iterator[Window]:
    """All windows with a number greater than `after` that have anything at all."""
    numbers = {
        number
        for span in spans.values()
        if span.start < span.end
        for number in range(max(span.start // size, after + 1), (span.end - 1) // size + 1)
    }
    for number in sorted(numbers):
        first, last = number * size, (number + 1) * size
        inside = {
            partition: Span(max(span.start, first), min(span.end, last))
            for partition, span in sorted(spans.items())
        }
        yield Window(number, {p: each for p, each in inside.items() if each.start < each.end})

"""Facts read as people say them."""

import pytest

from goqueue.cli.cells import relative, setting, size, span, text_of


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (1_234_567_890, "1.2 GB"), (123_456, "123 kB")],
)
def test_sizes(count: int, text: str):
    assert size(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (604_800_000, "7d"),
        (5_400_000, "1h30m"),
        (1_500, "1s500ms"),
        (2**63 - 1, "unlimited"),
    ],
)
def test_spans(ms: int, text: str):
    assert span(ms) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1_000_000, "now"),
        (700_000, "5 minutes ago"),
        (999_000, "1 second ago"),
        (1_030_000, "in 30 seconds"),
    ],
)
def test_moments(at: int, text: str):
    assert relative(at, 1_000_000) == text


def test_a_setting_has_its_unit():
    assert text_of(setting("retention.ms", "604800000"), at_terminal=True) == "7d"
    assert text_of(setting("segment.bytes", "67108864"), at_terminal=True) == "64 MiB"
    assert text_of(setting("max.message.bytes", "1048588"), at_terminal=True) == "1,048,588"
    assert text_of(setting("flush.messages", str(2**63 - 1)), at_terminal=True) == "unlimited"
    assert text_of(setting("segment.bytes", "67108864"), at_terminal=False) == "67108864"
    assert text_of(setting("retention.bytes", "-1"), at_terminal=True) == "-1"

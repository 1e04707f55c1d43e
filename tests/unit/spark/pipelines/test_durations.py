import pytest

from goqueue.spark.pipelines.durations import milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1m30s", 90_000),
        ("10 seconds", 10_000),
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        ("2d", 172_800_000),
        ("0s", 0),
        ("10", None),
        ("", None),
        ("soon", None),
        ("10 parsecs", None),
        ("-5s", None),
        ("1.5s", None),
    ],
)
def test_lengths_of_time(text: str, expected: int | None):
    assert milliseconds(text) == expected

"""Settings as people write them."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.pairs import setting_texts


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("retention.ms=7d", {"retention.ms": "604800000"}),
        ("goqueue.ttl.ms=1m30s", {"goqueue.ttl.ms": "90000"}),
        ("retention.ms=-1", {"retention.ms": "-1"}),
        ("retention.ms=soon", {"retention.ms": "soon"}),
        ("cleanup.policy=compact", {"cleanup.policy": "compact"}),
        ("segment.bytes=7", {"segment.bytes": "7"}),
    ],
)
def test_durations_stand_for_milliseconds(given: str, expected: dict[str, str]):
    assert setting_texts([given]) == expected


def test_a_setting_needs_a_name_and_a_value():
    with pytest.raises(UsageFailure):
        setting_texts(["retention.ms"])

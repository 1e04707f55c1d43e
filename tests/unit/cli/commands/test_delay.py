"""`goqueue delay`: what it takes for a time."""

import pytest

from goqueue.cli.commands.delay import read_delay
from goqueue.cli.failures import UsageFailure


def test_a_delay_is_written_as_everywhere():
    assert read_delay("1m30s") == 90_000
    assert read_delay("250") == 250
    with pytest.raises(UsageFailure, match="--delay: 'soon' is not a duration"):
        read_delay("soon")

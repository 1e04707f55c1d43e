"""`NAME=VALUE` arguments."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.pairs import pairs


def test_a_value_may_contain_an_equals_sign():
    assert pairs(["a=1", "b=x=y"], "--set") == {"a": "1", "b": "x=y"}


def test_a_setting_needs_a_name_and_a_value():
    with pytest.raises(UsageFailure):
        pairs(["retention.ms"], "--set")

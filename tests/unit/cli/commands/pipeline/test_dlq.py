"""`goqueue pipeline dlq`: the columns to group by."""

import pytest

from goqueue.cli.commands.pipeline.dlq import _columns
from goqueue.cli.failures import UsageFailure


def test_columns_are_named_once_and_in_order():
    assert _columns("error, reason,error,") == ("error", "reason")


@pytest.mark.parametrize("by", ["", ",", "reason,colour"])
def test_what_is_no_column_is_refused(by: str):
    with pytest.raises(UsageFailure):
        _columns(by)

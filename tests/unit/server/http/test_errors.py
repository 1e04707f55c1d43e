"""The table from errors to statuses."""

import pytest

from goqueue.broker.messages.read import DamagedRecords
from goqueue.model import errors
from goqueue.model.ids import Offset
from goqueue.server.http.errors import STATUS, problem_of, status_of


def all_errors() -> list[type[errors.GoQueueError]]:
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.GoQueueError)
    ]


@pytest.mark.parametrize("error", all_errors())
def test_every_error_has_its_status(error: type[errors.GoQueueError]):
    assert error in STATUS, f"say in server/http/errors.py what {error.__name__} is over HTTP"


def test_only_damage_and_the_unknown_are_the_servers_own_fault():
    own = {error for error, status in STATUS.items() if status == 500}
    assert own == {errors.GoQueueError, errors.CorruptData}


def test_a_class_without_an_entry_has_its_parents():
    error = DamagedRecords("bad", Offset(7))
    assert status_of(error) == 500
    assert problem_of(error).details == {"continue_at": 7}


def test_what_may_be_tried_again_says_so():
    assert problem_of(errors.DiskFull("full")).details == {"retriable": True}

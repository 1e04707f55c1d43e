"""Share sessions: whose turn it is, and when they end."""

from uuid import UUID

import pytest

from goqueue.broker.shares.sessions import (
    _EPOCH_MAX,
    FINAL_EPOCH,
    InvalidShareSessionEpoch,
    ShareSessionNotFound,
    ShareSessions,
)
from goqueue.model.ids import GroupId

GROUP = GroupId("workers")
TOPIC = UUID(int=7)


def test_epochs_go_on_by_one():
    sessions = ShareSessions()
    opened = sessions.open(GROUP, "ann")
    assert sessions.next(GROUP, "ann", 1) is opened
    assert sessions.next(GROUP, "ann", 2) is opened
    for epoch in (2, 4, 0):
        with pytest.raises(InvalidShareSessionEpoch, match="3 is the next"):
            sessions.next(GROUP, "ann", epoch)


def test_the_epoch_after_the_largest_is_1():
    sessions = ShareSessions()
    sessions.open(GROUP, "ann").epoch = _EPOCH_MAX
    assert sessions.next(GROUP, "ann", _EPOCH_MAX).epoch == 1


def test_the_last_word_ends_a_session():
    sessions = ShareSessions()
    opened = sessions.open(GROUP, "ann", "connection")
    assert sessions.next(GROUP, "ann", FINAL_EPOCH) is opened, "its acknowledgements are taken"
    assert not sessions.is_open(GROUP, "ann")
    assert sessions.close_all("connection") == []
    with pytest.raises(ShareSessionNotFound):
        sessions.next(GROUP, "ann", 2)


def test_who_opens_another_session_begins_anew():
    sessions = ShareSessions()
    before = sessions.open(GROUP, "ann")
    before.update([(TOPIC, 0)], [])
    sessions.next(GROUP, "ann", 1)
    assert not sessions.open(GROUP, "ann").partitions
    assert sessions.next(GROUP, "ann", 1) is not before


def test_partitions_are_named_once_then_only_changes():
    session = ShareSessions().open(GROUP, "ann")
    session.update([(TOPIC, 0), (TOPIC, 1)], [])
    session.update([(TOPIC, 2)], [(TOPIC, 0), (TOPIC, 9)])
    assert list(session.partitions) == [(TOPIC, 1), (TOPIC, 2)]


def test_sessions_end_with_the_connection_that_they_spoke_on_last():
    sessions = ShareSessions()
    sessions.open(GROUP, "ann", "first")
    sessions.open(GROUP, "bob", "first")
    sessions.next(GROUP, "ann", 1, "second")
    assert sessions.close_all("first") == [(GROUP, "bob")]
    assert sessions.is_open(GROUP, "ann")
    assert sessions.close_all("second") == [(GROUP, "ann")]
    assert sessions.close_all("second") == []


def test_the_least_recently_used_session_makes_room():
    sessions = ShareSessions(sessions_max=2)
    sessions.open(GROUP, "ann")
    sessions.open(GROUP, "bob")
    sessions.next(GROUP, "ann", 1)
    sessions.open(GROUP, "cleo")
    assert [sessions.is_open(GROUP, name) for name in ("ann", "bob", "cleo")] == [True, False, True]

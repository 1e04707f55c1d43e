"""Fetch sessions as KIP-227 has them."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.messages.fetch import FetchedPartition, PartitionFetch
from goqueue.model.errors import GoQueueError, TopicNotFound
from goqueue.model.ids import Offset
from goqueue.runtime import RealRandom
from goqueue.server.kafka import fetch_sessions
from goqueue.server.kafka.fetch_sessions import FetchSession, FetchSessions, list_requested
from goqueue.wire.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION = -1
OPEN = 0


def wants(partition: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 1_000_000)


def request(
    session_id: int,
    epoch: int,
    *partitions: FetchPartition,
    forgotten: tuple[int, ...] = (),
    topic: str = "t",
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic, list(partitions))] if partitions else [],
        forgotten=[ForgottenTopic(topic, list(forgotten))] if forgotten else [],
    )


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(3, RealRandom())


def opened(sessions: FetchSessions, *partitions: FetchPartition) -> FetchSession:
    session, error = sessions.resolve(request(0, OPEN, *partitions))
    assert error is ErrorCode.none
    assert session is not None
    return session


def offsets(session: FetchSession) -> dict[int, int]:
    found = list_requested(request(session.session_id, 1), session)
    return {index: wanted.fetch_offset for (_, index), wanted in found}


def answer(
    partition: int,
    *,
    end: int = 0,
    start: int = 0,
    records: bytes = b"",
    error: GoQueueError | None = None,
) -> FetchedPartition:
    return FetchedPartition(
        wanted=PartitionFetch("t", partition, Offset(0), 1),
        error=error,
        high_watermark=end,
        stable_offset=end,
        start_offset=start,
        records=records,
    )


# --- which session ----------------------------------------------------------------------------


def test_a_fetch_without_a_session_leaves_nothing_behind(sessions: FetchSessions):
    asked = request(0, NO_SESSION, wants(0), wants(1))
    session, error = sessions.resolve(asked)
    assert (session, error, len(sessions)) == (None, ErrorCode.none, 0)
    assert [index for (_, index), _ in list_requested(asked, session)] == [0, 1]


def test_a_session_is_opened_with_an_id_of_its_own(sessions: FetchSessions):
    first, second = opened(sessions, wants(0)), opened(sessions, wants(0))
    assert first.session_id > 0
    assert first.session_id != second.session_id
    assert len(sessions) == 2


def test_epochs_follow_each_other(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    for epoch in (1, 2, 3):
        assert sessions.resolve(request(session.session_id, epoch)) == (session, ErrorCode.none)


@pytest.mark.parametrize("epoch", [2, 7])
def test_an_epoch_out_of_turn_is_refused(sessions: FetchSessions, epoch: int):
    session = opened(sessions, wants(0))
    refused = sessions.resolve(request(session.session_id, epoch))
    assert refused == (None, ErrorCode.invalid_fetch_session_epoch)


def test_a_repeated_epoch_is_refused(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    sessions.resolve(request(session.session_id, 1))
    refused = sessions.resolve(request(session.session_id, 1))
    assert refused == (None, ErrorCode.invalid_fetch_session_epoch)


def test_the_epoch_after_the_largest_is_one(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    session.epoch = 2**31 - 1
    sessions.resolve(request(session.session_id, 2**31 - 1))
    assert sessions.resolve(request(session.session_id, 1))[1] is ErrorCode.none


def test_an_unknown_session_is_refused(sessions: FetchSessions):
    refused = sessions.resolve(request(12345, 1))
    assert refused == (None, ErrorCode.fetch_session_id_not_found)


def test_a_session_is_closed_by_its_client(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    sessions.resolve(request(session.session_id, NO_SESSION))
    assert len(sessions) == 0


def test_opening_anew_ends_the_session_before(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    again, _ = sessions.resolve(request(session.session_id, OPEN, wants(1)))
    assert again is not None
    assert again is not session
    assert len(sessions) == 1


def test_the_session_that_was_not_used_longest_makes_room(sessions: FetchSessions):
    oldest, second, _ = (opened(sessions, wants(0)) for _ in range(3))
    sessions.resolve(request(oldest.session_id, 1))
    opened(sessions, wants(0))
    assert len(sessions) == 3
    gone = sessions.resolve(request(second.session_id, 1))
    assert gone == (None, ErrorCode.fetch_session_id_not_found)
    assert sessions.resolve(request(oldest.session_id, 2))[1] is ErrorCode.none


# --- which partitions -------------------------------------------------------------------------


def test_later_requests_hold_changes_only(sessions: FetchSessions):
    session = opened(sessions, wants(0), wants(1), wants(2))
    changes = request(session.session_id, 1, wants(1, 50), wants(3), forgotten=(0,))
    sessions.resolve(changes)
    assert offsets(session) == {1: 50, 2: 0, 3: 0}


def test_forgetting_what_was_never_there_is_no_error(sessions: FetchSessions):
    session = opened(sessions, wants(0))
    sessions.resolve(request(session.session_id, 1, forgotten=(9,)))
    assert offsets(session) == {0: 0}


# --- what is news -----------------------------------------------------------------------------


def test_only_what_changed_is_news():
    session = FetchSession(1)
    session.update(request(1, OPEN, wants(0), wants(1)))
    assert session.is_news(("t", 0), answer(0, end=5))
    assert not session.is_news(("t", 0), answer(0, end=5))
    assert session.is_news(("t", 0), answer(0, end=6))
    assert session.is_news(("t", 0), answer(0, end=6, start=2))
    assert session.is_news(("t", 0), answer(0, end=6, start=2, records=b"x"))
    assert not session.is_news(("t", 0), answer(0, end=6, start=2))


def test_an_error_is_news_each_time_and_so_is_what_follows_it():
    session = FetchSession(1)
    session.update(request(1, OPEN, wants(0)))
    assert session.is_news(("t", 0), answer(0, error=TopicNotFound("gone")))
    assert session.is_news(("t", 0), answer(0, error=TopicNotFound("gone")))
    assert session.is_news(("t", 0), answer(0))


def test_a_partition_that_gave_records_comes_last_next_time():
    session = FetchSession(1)
    session.update(request(1, OPEN, wants(0), wants(1), wants(2)))
    session.is_news(("t", 0), answer(0, end=1, records=b"x"))
    assert list(offsets(session)) == [1, 2, 0]


def test_a_partition_that_was_forgotten_and_comes_again_is_news():
    session = FetchSession(1)
    session.update(request(1, OPEN, wants(0)))
    session.is_news(("t", 0), answer(0))
    session.update(request(1, 1, forgotten=(0,)))
    session.update(request(1, 2, wants(0)))
    assert session.is_news(("t", 0), answer(0))


def test_all_sessions_together_have_a_bounded_number_of_partitions(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    old = opened(sessions, *map(wants, range(4)))
    new = opened(sessions, *map(wants, range(6)))
    assert len(sessions) == 2
    more = request(new.session_id, 1, wants(6), forgotten=(0,))
    assert sessions.resolve(more) == (new, ErrorCode.none)
    more = request(new.session_id, 2, wants(7))
    assert sessions.resolve(more) == (new, ErrorCode.none)
    _, error = sessions.resolve(request(old.session_id, 1))
    assert error is ErrorCode.fetch_session_id_not_found


def test_a_session_that_is_too_large_by_itself_is_none(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    assert sessions.resolve(request(0, OPEN, *map(wants, range(11)))) == (None, ErrorCode.none)
    session = opened(sessions, *map(wants, range(10)))
    _, error = sessions.resolve(request(session.session_id, 1, wants(10)))
    assert error is ErrorCode.fetch_session_id_not_found
    assert len(sessions) == 0

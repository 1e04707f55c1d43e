"""A query that ends because the machine was busy is started again."""

import pytest

from goqueue.spark.runtime.restarting_query import PARKED, RESTARTS_MAX, RestartingQuery
from tests.unit.spark.runtime.test_job_runner import ENDLESS, FakeQuery

BUSY = RuntimeError("[STREAM_FAILED] …: Python worker failed to connect back. SQLSTATE: XXKST")


class Starts:
    """Gives one query after the other."""

    def __init__(self, *queries: FakeQuery) -> None:
        self.queries = list(queries)

    def __call__(self) -> FakeQuery:
        return self.queries.pop(0)


def test_a_query_that_was_not_answered_in_time_is_started_again():
    starts = Starts(FakeQuery("a", 0, BUSY), FakeQuery("a", 0, BUSY), FakeQuery("a", ENDLESS))
    query = RestartingQuery(starts)
    assert query.isActive
    assert query.isActive
    assert starts.queries == []
    assert query.exception() is None


def test_another_failure_ends_it():
    starts = Starts(FakeQuery("a", 0, RuntimeError("the disk is full")), FakeQuery("a", ENDLESS))
    query = RestartingQuery(starts)
    assert not query.isActive
    assert len(starts.queries) == 1


def test_one_that_has_finished_stays_so():
    starts = Starts(FakeQuery("a", 0), FakeQuery("a", ENDLESS))
    assert not RestartingQuery(starts).isActive


@pytest.mark.parametrize("stopped", [False, True])
def test_it_is_not_tried_for_ever_nor_after_a_stop(stopped: bool):
    starts = Starts(*(FakeQuery("a", 0, BUSY) for _ in range(RESTARTS_MAX + 3)))
    query = RestartingQuery(starts)
    if stopped:
        query.stop()
    assert not query.isActive
    assert not query.isActive
    assert len(starts.queries) == (RESTARTS_MAX + 2 if stopped else 2)


def test_a_parked_query_is_closed_and_has_not_ended():
    first, second = FakeQuery("a", ENDLESS), FakeQuery("a", ENDLESS)
    query = RestartingQuery(Starts(first, second))
    query.park()
    assert first.stopped
    assert query.query is not first, "Spark's object holds all of a query's memory"
    assert (query.name, query.isActive, query.exception()) == ("a", True, None)
    assert query.status["message"] == PARKED
    query.stop()
    query.wake()
    assert query.query is second
    assert query.isActive


def test_an_error_of_the_batch_that_parking_interrupts_is_nobodys():
    class Interrupted(FakeQuery):
        def stop(self) -> None:
            super().stop()
            raise ConnectionResetError("interrupted")

    first = Interrupted("a", ENDLESS)
    query = RestartingQuery(Starts(first))
    query.park()
    assert first.stopped
    assert query.isActive

"""Batches are sent in order and counted, whatever becomes of them."""

import threading

import pytest

from goqueue.api.errors import Problem
from goqueue.api.messages import PublishResult
from goqueue.cli.publishing import PROBLEMS_KEPT, Tally, publish_all
from goqueue.client import Message
from goqueue.client.errors import ClientError, NoAnswer, Overloaded

Answer = list[PublishResult] | ClientError


def good(count: int = 1) -> list[PublishResult]:
    return [PublishResult(partition=0, offset=number) for number in range(count)]


def bad(count: int) -> list[PublishResult]:
    problem = Problem(code="too_large", message="too large")
    return [PublishResult(error=problem) for _ in range(count)]


class Client:
    """Answers the requests one after the other with what it was given."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.sent: list[str] = []
        self._lock = threading.Lock()

    def publish_each(self, _topic: str, batch: list[Message]) -> list[PublishResult]:
        with self._lock:
            self.sent.append(str(batch[0].value))
            answer = self._answers.pop(0)
        if isinstance(answer, ClientError):
            raise answer
        return answer


def send(client: Client, tally: Tally, batches: int, *, in_flight: int = 1) -> int:
    """Batches of two messages; gives how often progress was told."""
    told: list[None] = []
    publish_all(
        client,  # type: ignore[arg-type]
        "orders",
        ([Message(str(number)), Message("x")] for number in range(batches)),
        tally,
        in_flight=in_flight,
        on_progress=lambda: told.append(None),
    )
    return len(told)


def test_everything_is_sent_in_order_and_counted():
    client, tally = Client(*[good(2)] * 5), Tally(keep_results=True)
    assert send(client, tally, 5) == 5
    assert client.sent == ["0", "1", "2", "3", "4"]
    assert (tally.published, tally.failed, tally.unknown) == (10, 0, 0)
    assert tally.results is not None
    assert len(tally.results) == 10


def test_messages_that_are_refused_do_not_end_it_and_the_first_reasons_are_kept():
    client, tally = Client(*[bad(2)] * 4, good(2)), Tally(keep_results=False)
    send(client, tally, 5)
    assert (tally.published, tally.failed) == (2, 8)
    assert len(tally.problems) == PROBLEMS_KEPT
    assert tally.results is None


def test_a_request_that_fails_as_a_whole_ends_it():
    client, tally = (
        Client(good(2), Overloaded("later", code="c", status=503), *[good(2)] * 9),
        Tally(keep_results=False),
    )
    with pytest.raises(Overloaded):
        send(client, tally, 10)
    assert tally.failed == 2
    assert len(client.sent) < 10
    assert tally.published == 2 * (len(client.sent) - 1), "what was sent by then is counted"


def test_what_became_of_a_lost_answer_is_not_known():
    client, tally = Client(NoAnswer("lost")), Tally(keep_results=False)
    with pytest.raises(NoAnswer):
        send(client, tally, 1)
    assert (tally.published, tally.failed, tally.unknown) == (0, 0, 2)


def test_several_requests_may_be_under_way():
    client, tally = Client(*[good(2)] * 20), Tally(keep_results=False)
    send(client, tally, 20, in_flight=4)
    assert sorted(client.sent, key=int) == [str(number) for number in range(20)]
    assert tally.published == 40

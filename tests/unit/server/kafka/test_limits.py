"""What all connections may hold and log together."""

import asyncio

import pytest

from goqueue.broker import Broker
from goqueue.model.config import KafkaConfig
from goqueue.security import ANONYMOUS
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.server.kafka.limits import (
    BYTES_AT_ONCE,
    ENTRIES_AT_ONCE,
    LOG_LINES_MAX,
    LOG_SECONDS,
    HeldBytes,
    LogLimit,
    Turn,
)
from goqueue.server.kafka.listener import FETCH_BYTES_MIN, KafkaListener
from goqueue.server.metrics import Metrics

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "count", "turns"),
    [
        (0, ENTRIES_AT_ONCE, 0),
        (0, 2 * ENTRIES_AT_ONCE + 1, 2),
        (10 * BYTES_AT_ONCE, 1, 0),  # what cannot be divided
        (10 * BYTES_AT_ONCE, 5, 4),
        (BYTES_AT_ONCE // 4, 9, 2),
    ],
)
def test_others_have_their_turn_after_so_many_entries_or_bytes(size: int, count: int, turns: int):
    turn = Turn()
    assert sum(turn.is_over(size) for _ in range(count)) == turns


def test_nobody_goes_while_there_is_room():
    held = HeldBytes[str](100)
    held.note("a", 60, 0)
    held.note("b", 40, 0)
    assert held.to_close(1_000) is None
    held.note("c", 1, 5)
    assert held.total == 101
    assert held.to_close(1_000) == "a"


def test_who_trickles_goes_before_who_makes_progress():
    held = HeldBytes[str](100)
    held.note("slow", 30, 0)
    held.note("quick", 80, 0)
    held.note("quick", 90, 59.9, made_progress=True)
    assert held.to_close(60) == "slow"


def test_among_those_that_have_just_begun_the_largest_goes():
    held = HeldBytes[str](100)
    for name, size in (("a", 30), ("b", 60), ("c", 20)):
        held.note(name, size, 7)
    assert held.to_close(7) == "b"


def test_what_is_no_longer_held_is_not_counted():
    held = HeldBytes[str](100)
    held.note("a", 90, 0)
    held.note("a", 0, 1)
    held.note("never", 0, 1)
    held.note("b", 90, 2)
    assert held.total == 90
    assert held.to_close(9) is None


def test_log_lines_are_bounded_and_the_rest_is_counted():
    limit = LogLimit()
    written = [limit.allows(0.0) for _ in range(LOG_LINES_MAX + 7)]
    assert sum(written) == LOG_LINES_MAX
    assert limit.take_left_out(LOG_SECONDS / 2) == 0
    assert limit.take_left_out(LOG_SECONDS) == 7
    assert limit.take_left_out(LOG_SECONDS) == 0
    assert limit.allows(LOG_SECONDS)


# --- replies that are not read ----------------------------------------------------------------


class SlowTransport(asyncio.Transport):
    """A peer that does not read: what is written stays."""

    def __init__(self, unsent: int) -> None:
        super().__init__()
        self.unsent = unsent
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
def listener(broker: Broker) -> KafkaListener:
    config = KafkaConfig(unsent_bytes_max=64 * MIB, request_ms=1_000)
    return KafkaListener(broker, config, Metrics(broker))


def slow_reader(listener: KafkaListener, unsent: int) -> tuple[KafkaConnection, SlowTransport]:
    connection, transport = KafkaConnection(listener), SlowTransport(unsent)
    connection._transport = transport
    connection.principal = ANONYMOUS
    connection.last_active = asyncio.get_running_loop().time()
    connection.pause_writing()
    return connection, transport


async def test_fetch_responses_shrink_while_clients_are_slow_to_read(listener: KafkaListener):
    assert listener._fetch_bytes_max() == listener.config.fetch_bytes_max
    first, _ = slow_reader(listener, 30 * MIB)
    assert listener._fetch_bytes_max() == 2 * MIB
    second, _ = slow_reader(listener, 30 * MIB)
    assert listener._fetch_bytes_max() == FETCH_BYTES_MIN
    first.resume_writing()
    second.resume_writing()
    assert listener._fetch_bytes_max() == listener.config.fetch_bytes_max


async def test_unread_replies_are_bounded_over_all_connections(listener: KafkaListener):
    readers = [slow_reader(listener, size * MIB) for size in (16, 16, 16)]
    _, largest = slow_reader(listener, 20 * MIB)
    assert [each.is_aborted for _, each in readers].count(True) + largest.is_aborted == 1
    assert listener._unsent.total <= 64 * MIB


async def test_a_slow_reader_is_closed_only_when_it_reads_nothing(listener: KafkaListener):
    connection, transport = slow_reader(listener, 10_000)
    now = asyncio.get_running_loop().time()
    assert connection.overdue(now + 0.9) is None
    transport.unsent -= 1
    assert connection.overdue(now + 1.5) is None
    assert connection.overdue(now + 2.4) is None
    assert "does not read" in (connection.overdue(now + 2.6) or "")

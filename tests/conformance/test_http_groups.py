"""Consumer groups over plain HTTP: members come, go, hang and crash; nothing is lost or shared."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from tests.conformance.group_server import SESSION_MS
from tests.conformance.http_groups import (
    BusyMember,
    HttpGroupServer,
    HttpMember,
    Read,
    timed,
    values,
)

SHORT_SESSION_MS = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path_factory.mktemp("groups"))
    server.start()
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"group-{request.node.name}"[:200].replace("/", "-")


# --- sharing ------------------------------------------------------------------------------------


def test_a_member_alone_reads_everything(server: HttpGroupServer, group: str):
    topic = server.topic()
    server.fill(topic, 40)
    member = HttpMember(server, group, topic)
    assert member.partitions == {(topic, index) for index in range(4)}
    answer = member.poll("5s", limit=1000)
    assert sorted(values(answer)) == list(range(40))
    assert answer["next_offsets"] == {topic: {str(index): 10 for index in range(4)}}
    for index in range(4):
        offsets = [m["offset"] for m in answer["messages"] if m["partition"] == index]
        assert offsets == list(range(10))


def test_a_second_member_gets_its_share_once_the_first_has_let_go(
    server: HttpGroupServer, group: str
):
    topic = server.topic()
    first = HttpMember(server, group, topic)
    with timed(at_most=3.0):  # and not the 20 s of the poll
        waiting = first.poll_in_background("20s")
        second = HttpMember(server, group, topic)
        told = waiting.result(10)
    assert len(told["revoked"]) == 2
    assert told["messages"] == []
    assert len(first.partitions) == 2
    assert second.poll()["partitions"] == []  # nobody said yet that they were let go

    eager = second.poll_in_background("20s")
    first.poll()
    with timed(at_most=3.0):
        eager.result(10)
    assert len(second.partitions) == 2
    assert not first.partitions & second.partitions


def test_a_hand_over_loses_nothing_and_repeats_nothing(
    server: HttpGroupServer, group: str, eventually
):
    topic = server.topic(6)
    journal: list[Read] = []
    stop = threading.Event()
    sent = 0

    def publish() -> None:
        nonlocal sent
        while not stop.is_set():
            server.fill(topic, 12, 6, start=sent)
            sent += 12

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    with BusyMember(HttpMember(server, group, topic), "a", journal) as first:
        eventually(lambda: first.read_count > 50)
        with BusyMember(HttpMember(server, group, topic), "b", journal) as second:
            eventually(lambda: second.read_count > 50)
            with BusyMember(HttpMember(server, group, topic), "c", journal) as third:
                eventually(lambda: third.read_count > 50)
            eventually(lambda: len(first.member.partitions) == 3)
        stop.set()
        publisher.join(10)
        eventually(lambda: len(journal) >= sent)
    counts = Counter(read.value for read in journal)
    assert sorted(counts) == list(range(sent))
    assert {value: count for value, count in counts.items() if count > 1} == {}
    for partition in range(6):
        offsets = [read.offset for read in journal if read.partition == partition]
        assert offsets == sorted(offsets), "two members read it at the same time"


def test_who_leaves_hands_over_at_once(server: HttpGroupServer, group: str):
    topic = server.topic()
    first, second = HttpMember(server, group, topic), HttpMember(server, group, topic)
    first.settle([second])
    assert len(first.partitions) == len(second.partitions) == 2
    waiting = first.poll_in_background("20s")
    with timed(at_most=2.0):
        second.leave()
        waiting.result(10)
    assert len(first.partitions) == 4
    second.poll(status=404)


def test_several_topics_are_read_in_one_poll(server: HttpGroupServer, group: str):
    topics = [server.topic(2) for _ in range(3)]
    member = HttpMember(server, group, *topics)
    for topic in topics:
        server.fill(topic, 2, 2)
    answer = member.poll("5s")
    while len(answer["messages"]) < 6:
        answer["messages"] += member.poll("5s")["messages"]
    assert {message["topic"] for message in answer["messages"]} == set(topics)


def test_a_backlog_in_one_partition_keeps_no_other_waiting(server: HttpGroupServer, group: str):
    topic = server.topic(2)
    server.fill(topic, 1000, 1)
    server.client.post(
        f"/topics/{topic}/messages", json={"messages": [{"value": "7", "partition": 1}]}
    )
    member = HttpMember(server, group, topic)
    seen = {m["partition"] for _ in range(2) for m in member.poll("5s", limit=10)["messages"]}
    assert seen == {0, 1}


def test_a_topic_that_grows_is_noticed_by_a_waiting_poll(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    member = HttpMember(server, group, topic)
    waiting = member.poll_in_background("20s")
    with timed(at_most=3.0):
        server.post(f"/topics/{topic}/partitions", count=3)
        waiting.result(10)
    assert member.partitions == {(topic, 0), (topic, 1), (topic, 2)}
    server.fill(topic, 3, 3)
    read: list[int] = []
    while len(read) < 3:
        read += values(member.poll("5s"))
    assert sorted(read) == [0, 1, 2]


def test_a_pattern_finds_topics_to_come(server: HttpGroupServer, group: str):
    server.topic(1, prefix="orders-eu")
    member = HttpMember(server, group, topics_regex="orders-.*")
    assert len(member.partitions) == 1
    waiting = member.poll_in_background("20s")
    server.topic(2, prefix="orders-us")
    with timed(at_most=3.0):
        waiting.result(10)
    assert len(member.partitions) == 3


def test_a_deleted_topic_is_let_go(server: HttpGroupServer, group: str):
    kept, gone = server.topic(1), server.topic(1)
    member = HttpMember(server, group, kept, gone)
    server.fill(gone, 3, 1)
    assert len(member.poll("5s")["messages"]) == 3
    waiting = member.poll_in_background("20s")
    with timed(at_most=3.0):
        server.client.delete(f"/topics/{gone}")
        waiting.result(10)
    member.poll()
    assert member.partitions == {(kept, 0)}


# --- life and death -----------------------------------------------------------------------------


def test_an_idle_poll_ends_with_200_and_nothing(server: HttpGroupServer, group: str):
    member = HttpMember(server, group, server.topic())
    with timed(at_least=0.9, at_most=3.0):
        answer = member.poll("1s")
    assert answer["messages"] == []
    assert answer["next_offsets"] == {}


def test_a_message_ends_a_poll_that_waits(server: HttpGroupServer, group: str):
    topic = server.topic()
    member = HttpMember(server, group, topic)
    waiting = member.poll_in_background("20s")
    with timed(at_most=2.0):
        server.fill(topic, 1)
        assert values(waiting.result(10)) == [0]


def test_silence_for_longer_than_the_session_is_death(server: HttpGroupServer, group: str):
    topic = server.topic()
    first = HttpMember(server, group, topic)
    dead = HttpMember(server, group, topic, session_timeout_ms=SHORT_SESSION_MS)
    first.poll()
    first.poll()
    assert len(first.partitions) == 2
    waiting = first.poll_in_background("20s")
    with timed(at_most=5.0):
        waiting.result(10)
    assert len(first.partitions) == 4
    assert dead.poll(status=404)["error"]["code"] == "unknown_member_id"
    assert server.get(f"/groups/{group}/rebalance/stats")["sessions_expired"] == 1


def test_a_poll_that_waits_is_a_heartbeat(server: HttpGroupServer, group: str):
    member = HttpMember(server, group, server.topic(), session_timeout_ms=SHORT_SESSION_MS)
    with timed(at_least=1.9, at_most=5.0):
        member.poll("2s")
    member.poll()
    assert len(member.partitions) == 4
    assert server.get(f"/groups/{group}")["generation"] == 1


def test_a_heartbeat_is_enough_while_messages_are_processed(
    server: HttpGroupServer, group: str, eventually
):
    member = HttpMember(server, group, server.topic(), session_timeout_ms=SHORT_SESSION_MS)
    beats = 0

    def beat() -> bool:
        nonlocal beats
        member.heartbeat()
        beats += 1
        return beats > 50

    with timed(at_least=SHORT_SESSION_MS / 1000, at_most=20.0):
        eventually(beat)
    assert len(member.partitions) == 4


def test_a_session_that_is_too_short_is_refused(server: HttpGroupServer, group: str):
    answer = server.post(
        f"/groups/{group}/join", 400, topics=[server.topic()], session_timeout_ms=10
    )
    assert answer["error"]["code"] == "invalid_session_timeout"


def test_a_dropped_connection_frees_what_it_would_have_got(
    server: HttpGroupServer, group: str, eventually
):
    topic = server.topic(1)
    member = HttpMember(server, group, topic)
    with socket.create_connection((server.host, server.port)) as dropped:
        path = f"/groups/{group}/poll?member_id={member.member_id}&generation=1&timeout=30s"
        dropped.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        dropped.settimeout(0.3)
        with pytest.raises(TimeoutError):
            dropped.recv(1)
    eventually(lambda: waiting_polls(server) == 0)
    server.fill(topic, 3, 1)
    assert server.get(f"/groups/{group}/offsets")["topics"] == {}
    assert values(member.poll("5s")) == [0, 1, 2]


def waiting_polls(server: HttpGroupServer) -> int:
    """Requests under way beside the one that asks."""
    name = "goqueue_active_connections"
    text = server.client.get("/metrics").text
    found = [line for line in text.splitlines() if line.startswith(f'{name}{{listener="http"}}')]
    return int(float(found[0].split()[-1])) - 1


def test_an_answer_that_got_lost_comes_again(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    member = HttpMember(server, group, topic)
    server.fill(topic, 4, 1)
    assert values(member.poll("5s", limit=2)) == [0, 1]
    heard = member.poll_id
    assert values(member.poll("5s", limit=2)) == [2, 3]
    member.poll_id = heard  # as if the second answer had never come
    assert values(member.poll("5s", limit=2)) == [2, 3]
    assert server.committed(group) == {topic: {"0": 2}}


def test_a_second_poll_ends_the_first(server: HttpGroupServer, group: str):
    member = HttpMember(server, group, server.topic())
    twin = HttpMember.__new__(HttpMember)
    twin.__dict__.update(member.__dict__)
    waiting = twin.poll_in_background("20s")
    member.poll()
    with pytest.raises(AssertionError, match="poll_superseded"):
        waiting.result(5)


def test_a_static_member_restarts_without_a_rebalance(server: HttpGroupServer, group: str):
    topic = server.topic()
    other = HttpMember(server, group, topic)
    before = HttpMember(server, group, topic, instance_id="worker-1")
    other.settle([before])
    generation = server.get(f"/groups/{group}")["generation"]
    after = HttpMember(server, group, topic, instance_id="worker-1")
    assert after.member_id != before.member_id
    assert after.partitions == before.partitions
    assert server.get(f"/groups/{group}")["generation"] == generation
    before.poll(status=404)
    other.poll()
    assert len(other.partitions) == 2


def test_a_member_that_joins_again_keeps_its_partitions(server: HttpGroupServer, group: str):
    topic = server.topic()
    first, second = HttpMember(server, group, topic), HttpMember(server, group, topic)
    first.settle([second])
    again = HttpMember(server, group, topic, member_id=first.member_id)
    assert again.member_id == first.member_id
    assert again.partitions == first.partitions


# --- together with Kafka clients ----------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_http_and_kafka_members_share_a_group(
    server: HttpGroupServer, group: str, protocol: str, eventually
):
    topic = server.topic()
    member = HttpMember(server, group, topic)
    settings: dict[str, object] = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "group.protocol": protocol,
    }
    if protocol == "classic":
        settings |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": "cooperative-sticky",
        }
    consumer = Consumer({**server.bootstrap, **settings})
    consumer.subscribe([topic])
    seen: Counter[int] = Counter()

    def both_poll() -> bool:
        seen.update(values(member.poll("50ms")))
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            seen.update([int(message.value())])
        return len(member.partitions) == 2 and len(consumer.assignment()) == 2

    try:
        eventually(both_poll, within_s=30.0)
        server.fill(topic, 40)

        def all_read() -> bool:
            both_poll()
            return len(seen) == 40

        eventually(all_read, within_s=30.0)
        assert set(seen.values()) == {1}
    finally:
        consumer.close()
    eventually(lambda: len(member.poll("100ms")["partitions"]) == 4)

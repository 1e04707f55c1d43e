"""HTTP and queues in a cluster: whatever node is asked, the right one answers."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.http_nodes import HttpNodes, http_nodes

Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


_numbers = itertools.count()


@pytest.fixture
def topic(nodes: HttpNodes) -> str:
    """Each of its three partitions is led by another node."""
    return nodes.topic(f"orders-{next(_numbers)}", 3)


def test_a_message_is_read_at_any_node(nodes: HttpNodes, topic: str):
    for partition, leader in nodes.leaders(topic).items():
        (result,) = nodes.publish(leader % 3 + 1, topic, "hello", partition=partition)
        assert (result["partition"], result["offset"]) == (partition, 0)
        path = f"/topics/{topic}/partitions/{partition}/messages"
        for number in (1, 2, 3):
            reply = nodes.ask(number, "GET", path)
            assert [each["value"] for each in reply.json()["messages"]] == ["hello"]
            served_by = None if number == leader else str(leader)
            assert reply.headers.get("x-goqueue-served-by") == served_by


def test_a_batch_over_several_leaders_is_answered_in_order(nodes: HttpNodes, topic: str):
    messages = [{"value": str(i), "partition": i % 3} for i in range(9)]
    messages.append({"value": "nowhere", "partition": 7})
    reply = nodes.ask(2, "POST", f"/topics/{topic}/messages", messages=messages)
    assert reply.status_code == 207
    results = reply.json()["results"]
    assert [each.get("partition") for each in results[:9]] == [i % 3 for i in range(9)]
    assert [each["offset"] for each in results[:9]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert results[9]["error"]["code"] == "partition_not_found"


def test_a_repeat_at_another_node_is_written_once(nodes: HttpNodes, topic: str):
    def publish(number: int):
        url = nodes.url(number, f"/topics/{topic}/messages")
        body = {"messages": [{"value": "a", "key": str(i)} for i in range(6)]}
        return nodes.client.post(url, json=body, headers={"Idempotency-Key": f"k-{topic}"})

    first, second = publish(1), publish(3)
    assert second.headers["idempotency-replayed"] == "true"
    assert second.json() == first.json()


def test_a_message_is_received_once_and_acked_at_any_node(nodes: HttpNodes, topic: str):
    nodes.publish(1, topic, *map(str, range(30)), partition=None)
    for partition in range(3):
        nodes.publish(2, topic, *(f"{partition}-{i}" for i in range(10)), partition=partition)
    found = []
    for number in itertools.islice(itertools.cycle((1, 2, 3)), 30):
        found += nodes.receive(number, topic, "workers", max_messages=5)
        if len(found) == 60:
            break
    assert len({each["receipt_handle"] for each in found}) == len(found) == 60
    assert nodes.receive(1, topic, "workers") == []
    handles = [each["receipt_handle"] for each in found]
    one = nodes.post(3, "/messages/ack", receipt_handle=handles[0])
    assert one["action"] == "acked"
    many = nodes.post(2, "/messages/ack", receipt_handles=handles[1:31])
    assert (many["settled"], many["refused"]) == (30, 0)
    handles = [*handles[31:], "rubbish"]
    quiet = nodes.ask(1, "POST", "/messages/ack", receipt_handles=handles, quiet=True).json()
    assert quiet["settled"] == 29
    assert [each["index"] for each in quiet["results"]] == [29]
    assert all(nodes.receive(number, topic, "workers") == [] for number in (1, 2, 3))


def test_a_long_poll_ends_with_a_message_of_another_leader(nodes: HttpNodes, topic: str):
    for partition, leader in nodes.leaders(topic).items():
        at = leader % 3 + 1
        found: list[object] = []
        waiting = threading.Thread(
            target=lambda at=at, found=found: found.extend(
                nodes.receive(at, topic, "waiters", wait="20s")
            )
        )
        waiting.start()
        nodes.publish(at, topic, f"news-{partition}", partition=partition)
        waiting.join(20)
        assert [each["value"] for each in found] == [f"news-{partition}"]  # type: ignore[index]


def test_a_nacked_message_comes_back_at_another_node(nodes: HttpNodes, topic: str):
    for partition in range(3):
        nodes.publish(1, topic, str(partition), partition=partition)
    found = [each for n in (1, 2, 3) for each in nodes.receive(n, topic, "again", max_messages=1)]
    handles = [each["receipt_handle"] for each in found]
    assert len(handles) == 3
    answer = nodes.post(2, "/messages/nack", receipt_handles=handles, delay="0s")
    assert answer["settled"] == 3
    back = [each for n in (3, 1, 2) for each in nodes.receive(n, topic, "again", wait="10s")]
    assert sorted(each["attempt"] for each in back) == [2, 2, 2]


def test_members_of_a_queue_group_get_messages_of_all_leaders(nodes: HttpNodes, topic: str):
    joined = nodes.post(2, "/groups/crew/join", topics=[topic], mode="queue")
    member = joined["member_id"]
    for partition in range(3):
        nodes.publish(1, topic, str(partition), partition=partition)
    values = set()
    for number in (3, 2, 1):
        polled = nodes.get(number, "/groups/crew/poll", member_id=member, timeout="10s")
        values |= {each["value"] for each in polled["messages"]}
    assert values == {"0", "1", "2"}
    left = nodes.post(3, "/groups/crew/leave", member_id=member)
    assert left["left"]
    found = nodes.receive(2, topic, "crew", wait="10s")
    assert found, "what it held is free"


def test_offsets_of_a_group_are_the_same_at_all_nodes(nodes: HttpNodes, topic: str):
    nodes.post(3, "/groups/readers/offsets", offsets={topic: {"0": 5}})
    answers = [nodes.get(number, "/groups/readers/offsets")["topics"] for number in (1, 2, 3)]
    assert answers[0][topic] == {"0": 5}
    assert answers[0] == answers[1] == answers[2]


def test_a_topic_is_described_and_read_as_one_at_any_node(nodes: HttpNodes, topic: str):
    for partition in range(3):
        nodes.publish(1, topic, f"{partition}-a", f"{partition}-b", partition=partition)
    leaders = nodes.leaders(topic)
    for number in (1, 2, 3):
        found = nodes.get(number, f"/topics/{topic}")
        assert found["total_messages"] == 6
        assert {index: each["latest"] for index, each in found["partition_offsets"].items()} == {
            "0": 2,
            "1": 2,
            "2": 2,
        }
        listed = nodes.get(number, f"/topics/{topic}/partitions")["partitions"]
        assert {each["partition"]: each["leader"] for each in listed} == leaders
        page = nodes.get(number, f"/topics/{topic}/messages", limit=100)
        assert len({each["value"] for each in page["messages"]}) == 6
        rest = nodes.get(number, f"/topics/{topic}/messages", cursor=page["cursor"])
        assert rest["messages"] == []
        last = nodes.get(number, f"/topics/{topic}/messages", start="-1")
        assert {each["value"] for each in last["messages"]} == {"0-b", "1-b", "2-b"}


def test_members_read_partitions_of_all_leaders_and_their_lag_is_known(
    nodes: HttpNodes, topic: str
):
    joined = nodes.post(2, "/groups/streams/join", topics=[topic], auto_commit=False)
    member, generation = joined["member_id"], joined["generation"]
    for partition in range(3):
        nodes.publish(3, topic, f"{partition}", partition=partition)
    values: set[str] = set()
    while len(values) < 3:
        polled = nodes.get(
            3, "/groups/streams/poll", member_id=member, generation=generation, timeout="10s"
        )
        generation = polled["generation"]
        values |= {each["value"] for each in polled["messages"]}
    assert values == {"0", "1", "2"}
    assert nodes.get(2, "/groups/streams/lag")["total_lag"] == 3
    nodes.post(
        3,
        "/groups/streams/offsets",
        member_id=member,
        generation=generation,
        offsets={topic: {"0": 1, "1": 1, "2": 1}},
    )
    assert nodes.get(2, "/groups/streams/lag")["total_lag"] == 0
    nodes.post(1, "/groups/streams/leave", member_id=member)
    nodes.post(3, "/groups/streams/offsets/reset", to="earliest", topic=topic)
    assert nodes.get(3, "/groups/streams/lag")["total_lag"] == 3


def test_a_transaction_over_all_leaders_is_written_and_acked_at_any_node(
    nodes: HttpNodes, topic: str
):
    for partition in range(3):
        nodes.publish(1, topic, f"in-{partition}", partition=partition)
    held: list[str] = []
    while len(held) < 3:
        held += [each["receipt_handle"] for each in nodes.receive(2, topic, "movers", wait="5s")]
    name = f"mover-{topic}"
    producer = nodes.post(1, "/producers/init", transactional_id=name)
    of = {"transactional_id": name, **producer}
    nodes.post(2, "/transactions/begin", **of)
    for partition in range(3):
        nodes.post(3, "/transactions/add-partition", **of, topic=topic, partition=partition)
        one = {"topic": topic, "partition": partition, "value": f"one-{partition}", "sequence": 0}
        assert not nodes.post(2, "/transactions/publish", **of, **one)["duplicate"]
        assert nodes.post(1, "/transactions/publish", **of, **one)["duplicate"]
    many = [{"value": f"many-{partition}", "partition": partition} for partition in range(3)]
    nodes.post(3, "/transactions/messages", **of, topic=topic, messages=many)
    assert nodes.post(2, "/transactions/acks", **of, receipt_handles=held)["acks"] == 3
    assert nodes.get(3, f"/transactions/ids/{name}")["acks"] == 3
    assert read_values(nodes, topic) == {f"in-{partition}" for partition in range(3)}
    late = nodes.ask(3, "POST", "/messages/ack", receipt_handle=held[0])
    assert late.status_code == 409, "the transaction has it"
    nodes.post(3, "/transactions/commit", **of)
    expected = {f"{word}-{partition}" for word in ("in", "one", "many") for partition in range(3)}
    assert read_values(nodes, topic) == expected
    received: list[str] = []
    while len(received) < 6:
        received += [each["value"] for each in nodes.receive(1, topic, "movers", wait="5s")]
    assert set(received) == expected - {"in-0", "in-1", "in-2"}


def read_values(nodes: HttpNodes, topic: str) -> set[str]:
    page = nodes.get(2, f"/topics/{topic}/messages", limit=100)
    return {each["value"] for each in page["messages"]}


def test_dead_letters_of_all_leaders_are_one_list_at_any_node(nodes: HttpNodes, topic: str):
    for partition in range(3):
        nodes.publish(1, topic, f"{partition}-a", f"{partition}-b", partition=partition)
    handles: list[str] = []
    while len(handles) < 6:
        handles += [each["receipt_handle"] for each in nodes.receive(2, topic, "graves", wait="5s")]
    nodes.post(3, "/messages/reject", receipt_handles=handles, reason="bad")
    path = f"/topics/{topic}/dlq"
    while nodes.get(1, path)["count"] < 6:
        nodes.get(1, "/cluster/health")  # a round trip later
    answers = [nodes.get(number, path, reasons=True) for number in (1, 2, 3)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["reasons"] == {"rejected": 6}
    assert "missing" not in answers[0]
    page = nodes.get(2, path, limit=4)
    rest = nodes.get(3, path, after=page["next_after"])
    assert len(page["messages"]) + len(rest["messages"]) == 6
    for each in answers[0]["messages"]:
        assert nodes.get(2, f"{path}/{each['partition']}/{each['offset']}") == each
    assert nodes.post(2, f"{path}/redrive", dry_run=True)["moved"] == 6
    assert nodes.post(3, f"{path}/redrive", limit=4)["moved"] == 4
    started = nodes.ask(1, "POST", f"{path}/redrive", background=True, limit=1)
    assert started.status_code == 202, started.text
    progress = f"{path}/redrives/{started.json()['id']}"
    while nodes.get(3, progress)["state"] == "running":
        nodes.get(1, "/cluster/health")
    assert nodes.get(2, progress)["moved"] == 1
    reply = nodes.ask(2, "DELETE", path)
    assert reply.json()["purged"] == 1, reply.text
    taken = [nodes.get(number, f"{path}/taken") for number in (1, 2, 3)]
    assert taken[0] == taken[1] == taken[2]
    again: list[str] = []
    while len(again) < 5:
        again += [each["value"] for each in nodes.receive(1, topic, "graves", wait="5s")]
    assert len(set(again)) == 5


def test_figures_of_a_queue_are_the_same_at_all_nodes(nodes: HttpNodes, topic: str):
    for partition in range(3):
        nodes.publish(1, topic, "a", "b", partition=partition)
    held: list[str] = []
    while len(held) < 3:
        found = nodes.receive(2, topic, "counted", wait="5s", max_messages=1)
        held += [each["receipt_handle"] for each in found]

    def ask(number: int, path: str, **query: object) -> dict[str, object]:
        found: dict[str, object] = nodes.get(number, path, **query)
        assert "missing" not in found
        return found

    figures = [ask(number, "/reliability/stats", group="counted") for number in (1, 2, 3)]
    assert figures[0] == figures[1] == figures[2]
    assert (figures[0]["ready"], figures[0]["in_flight"]) == (3, 3)
    lanes = [ask(number, "/priority/stats", group="counted") for number in (1, 2, 3)]
    assert [len(each["partitions"]) for each in lanes] == [3, 3, 3]  # type: ignore[arg-type]
    lists = [ask(number, "/groups/counted/in-flight") for number in (1, 2, 3)]
    assert lists[0] == lists[1] == lists[2]
    handles = {each["receipt_handle"] for each in lists[0]["messages"]}  # type: ignore[attr-defined]
    assert handles == set(held)
    for number in (1, 2, 3):
        peeked = nodes.get(number, f"/queues/{topic}/peek", group="counted")
        assert {each["partition"] for each in peeked["messages"]} == {0, 1, 2}
    extended = nodes.post(3, "/groups/counted/in-flight/extend", timeout="1m")
    assert extended["settled"] == 3
    assert nodes.post(1, "/groups/counted/in-flight/release", topic=topic)["settled"] == 3


def test_a_transaction_is_carried_out_at_any_node_by_the_id_in_its_body(
    nodes: HttpNodes, topic: str
):
    for name in ("one", "two", "three"):
        who = nodes.post(1, "/producers/init", transactional_id=name)
        identity = {"transactional_id": name, **who}
        begun = nodes.post(2, "/transactions/begin", **identity)
        nodes.post(3, "/transactions/publish", **who, topic=topic, value=name)  # without its id
        described = nodes.get(2, "/transactions/describe", transactional_id=name)
        assert (described["state"], described["transaction_id"]) == (
            "ongoing",
            begun["transaction_id"],
        )
        nodes.post(1, "/transactions/commit", **identity)
    listed = [nodes.get(number, "/transactions", all="true") for number in (1, 2, 3)]
    assert listed[0] == listed[1] == listed[2]
    assert {each["transactional_id"] for each in listed[0]["transactions"]} >= {"one", "two"}
    assert nodes.get(3, "/transactions/stats")["committed"] >= 3
    found = nodes.get(2, "/admin/coordinators")["coordinators"]
    assert len(found) == 32
    assert all(each["node_id"] and each["size"] is not None for each in found)

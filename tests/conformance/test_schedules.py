"""Schedules over HTTP, through the client, across kills, and on a cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.client import Client, PreviewInput, Refused, ScheduledMessage, ScheduleInput
from tests.conformance.cluster_processes import NodeProcess, running_cluster
from tests.conformance.http_nodes import HttpNodes, http_nodes
from tests.conformance.server import Server

Eventually = Callable[..., Any]


@pytest.fixture
def topic(server: Server, names: Iterator[str]) -> str:
    name = next(names)
    with Client(f"http://{server.http_address}") as client:
        client.create_topic(name, partitions=2)
    return name


def every_second(topic: str, **more: Any) -> ScheduleInput:
    message = ScheduledMessage({"run": "{{run}}"}, priority="high", headers={"by": "{{name}}"})
    return ScheduleInput(topic, message, every="1s", missed="all", **more)


def test_the_client_creates_changes_runs_and_deletes(server: Server, topic: str):
    with Client(f"http://{server.http_address}") as client:
        message = ScheduledMessage({"day": "{{scheduled_date}}"}, key="k")
        given = ScheduleInput(topic, message, cron="0 9 * * MON-FRI", timezone="Asia/Karachi")
        created = client.create_schedule("report", given, paused=True)
        assert (created.status, created.version, created.next_run_at) == ("paused", 1, None)
        assert created.text == "At 09:00 on Monday through Friday (Asia/Karachi)"
        assert created.message.value == '{"day":"{{scheduled_date}}"}'
        with pytest.raises(Refused) as twice:
            client.create_schedule("report", given)
        assert twice.value.code == "schedule_exists"
        asked = client.run_schedule("report")
        assert asked.run is not None
        (run,) = client.schedule_runs("report")
        assert (run.number, run.manual, run.topic, run) == (1, True, topic, asked.run)
        assert client.resume_schedule("report").status == "active"
        upcoming = client.schedule_preview("report", 3)
        assert all(each.local.endswith("T09:00:00+05:00") for each in upcoming.runs)
        changed = client.replace_schedule(
            "report", ScheduleInput(topic, message, every="2h", version=1, max_runs=1)
        )
        assert (changed.version, changed.every_ms, changed.status) == (2, 7_200_000, "finished")
        with pytest.raises(Refused, match="has version 2, not 1"):
            client.replace_schedule("report", ScheduleInput(topic, message, every="1h", version=1))
        with pytest.raises(Refused, match="has had all its 1 runs"):
            client.run_schedule("report")
        assert [each.name for each in client.schedules().schedules] == ["report"]
        client.delete_schedule("report")
        with pytest.raises(Refused, match="there is no schedule 'report'"):
            client.schedule("report")


def test_runs_are_seen_by_readers(server: Server, topic: str, eventually: Eventually):
    with Client(f"http://{server.http_address}") as client:
        client.create_schedule("seen", every_second(topic, max_runs=2))
        eventually(lambda: client.schedule("seen").status == "finished")
        found = sorted(client.read(topic), key=lambda each: each.value or b"")
        assert [each.value for each in found] == [b'{"run":"1"}', b'{"run":"2"}']
        headers = dict(found[0].headers)
        assert (headers["by"], headers["gq-priority"]) == (b"seen", b"high")
        assert (headers["gq-schedule"], headers["gq-schedule-run"]) == (b"seen", b"1")
        client.delete_schedule("seen")


def test_all_mistakes_are_named_at_once(server: Server, topic: str):
    url = f"http://{server.http_address}/schedules"
    body = {"name": "bad", "topic": topic, "cron": "61 * * * MOX", "timezone": "Asia/Lahore"}
    refused = httpx.post(url, json={**body, "message": {"value": "{{runs}}"}})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "invalid_schedule"
    found = [(each["field"], each["suggestion"]) for each in error["details"]["mistakes"]]
    assert found == [
        *(("cron", ""), ("cron", ""), ("timezone", "Asia/Karachi"), ("message.value", "{{run}}"))
    ]
    for given, status, word in (
        ({"every": "soon"}, 400, "every"),
        ({"cron": "* * * * *", "message": {"value": 1, "encoding": "base64"}}, 400, "base64"),
        ({"cron": "* * * * *", "start": "tomorrow"}, 400, "start"),
        ({"cron": "* * * * *", "topic": "none"}, 404, "no topic"),
        ({"cron": "* * * * *", "message": {"value": "", "partition": 9}}, 404, "partition"),
        ({"cron": "* * * * *", "topic": "__groups"}, 400, "own topic"),
        ({"cron": "* * * * *", "messages": {}}, 400, "did you mean `message`"),
    ):
        sent = {"name": "bad", "topic": topic, "message": {"value": ""}, **given}
        answer = httpx.post(url, json=sent)
        assert answer.status_code == status, answer.text
        assert word in answer.text


def test_a_preview_needs_no_schedule(server: Server):
    with Client(f"http://{server.http_address}") as client:
        found = client.preview_schedule(
            PreviewInput(
                cron="30 2 * * *", timezone="Europe/Berlin", start="2027-03-27T00:00:00Z", count=3
            )
        )
        assert [each.local for each in found.runs] == [
            "2027-03-27T02:30:00+01:00",
            "2027-03-28T03:00:00+02:00",
            "2027-03-29T02:30:00+02:00",
        ]
        with pytest.raises(Refused, match="would never run"):
            client.preview_schedule(PreviewInput(cron="0 0 * * *", end="2020-01-01T00:00:00Z"))


def runs_in(client: Client, topic: str, name: str = "s") -> list[tuple[int, bytes]]:
    """Number and time of all runs of a schedule that are in the topic."""
    headers = [dict(each.headers) for each in client.read(topic)]
    return sorted(
        (int(each["gq-schedule-run"] or b""), each["gq-scheduled-at"] or b"")
        for each in headers
        if each["gq-schedule"] == name.encode()
    )


def assert_each_once(found: list[tuple[int, bytes]]) -> None:
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert len({at for _, at in found}) == len(found)


def test_after_a_kill_each_run_is_there_once(own_server: Server, eventually: Eventually):
    with Client(f"http://{own_server.http_address}") as client:
        client.create_topic("t", partitions=2)
        client.create_schedule("s", every_second("t"))
        eventually(lambda: client.schedule("s").runs >= 1)
    own_server.kill()
    own_server.start()
    with Client(f"http://{own_server.http_address}") as client:
        eventually(lambda: client.schedule("s").runs >= 3)
        client.pause_schedule("s")
        eventually(lambda: len(client.schedule_runs("s")) == client.schedule("s").runs)
        assert_each_once(runs_in(client, "t"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_many_kills_each_run_is_there_once(own_server: Server, eventually: Eventually):
    for round_number in range(10):
        with Client(f"http://{own_server.http_address}") as client:
            if not round_number:
                client.create_topic("t", partitions=2)
                for name in ("a", "b", "c", "d"):
                    client.create_schedule(name, every_second("t"))
            before = client.schedule("a").runs
            eventually(lambda before=before, client=client: client.schedule("a").runs > before + 2)
        own_server.kill()
        own_server.start()
    with Client(f"http://{own_server.http_address}") as client:
        for name in ("a", "b", "c", "d"):
            client.pause_schedule(name)
            assert_each_once(runs_in(client, "t", name))


# --- a cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def test_any_node_takes_requests_and_runs_reach_all_leaders(nodes: HttpNodes):
    nodes.topic("t", 3)
    with Client(nodes.url(2, "")) as client:
        client.create_schedule("s", every_second("t"), paused=True)
        places = [client.run_schedule("s").run for _ in range(6)]
        assert [each and (each.number, each.partition, each.offset) for each in places] == [
            *((1, 0, 0), (2, 1, 0), (3, 2, 0), (4, 0, 1), (5, 1, 1), (6, 2, 1))
        ]
    for number in (1, 2, 3):
        assert len(nodes.get(number, "/schedules/s/runs")["runs"]) == 6
        assert nodes.ask(number, "GET", "/schedules/none").status_code == 404
        assert nodes.get(number, "/schedules")["total"] == 1
    with Client(nodes.url(3, "")) as client:
        assert_each_once(runs_in(client, "t"))
        client.delete_schedule("s")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_when_the_leader_dies_each_run_is_there_once(tmp_path: Path, eventually: Eventually):
    replication: dict[str, Any] = {"topics.replication": 3}
    with running_cluster(tmp_path, 3, **replication) as cluster:
        first = cluster[0]
        first.post("/topics", {"name": "t", "partitions": 3})
        eventually(lambda: len(place_of_schedules(first)["isr"]) == 3, within_s=60)
        with Client(first.http) as client:
            client.create_schedule("s", every_second("t"))
            eventually(lambda: client.schedule("s").runs >= 2, within_s=60)
            for doomed in (2, 3):
                lead(first, doomed, eventually)
                before = client.schedule("s").runs
                eventually(
                    lambda before=before: client.schedule("s").runs >= before + 2, within_s=60
                )
                cluster[doomed - 1].kill()
                eventually(
                    lambda before=before: client.schedule("s").runs >= before + 8, within_s=60
                )
                cluster[doomed - 1].start()
                eventually(lambda: len(place_of_schedules(first)["isr"]) == 3, within_s=60)
            client.pause_schedule("s")
            found = client.schedule("s")
            eventually(lambda: len(runs_in(client, "t")) == found.runs, within_s=60)
            assert_each_once(runs_in(client, "t"))


def place_of_schedules(node: NodeProcess) -> Any:
    return node.get("/cluster/partition/__schedules/0/info")["place"]


def lead(node: NodeProcess, number: int, eventually: Eventually) -> None:
    replicas = [number, *(each for each in (1, 2, 3) if each != number)]
    move = {"topic": "__schedules", "partition": 0, "new_replicas": replicas}
    assert node.post("/admin/reassignment", {"partitions": [move]}).status_code == 202
    eventually(lambda: place_of_schedules(node)["replicas"] == replicas, within_s=60)
    node.post("/cluster/leader-election", {"topic": "__schedules", "partition": 0})
    eventually(lambda: place_of_schedules(node)["leader"] == number, within_s=60)

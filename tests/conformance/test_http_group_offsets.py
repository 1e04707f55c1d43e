"""Offsets of groups over HTTP: committed, kept through a kill, looked at and moved."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.http_groups import (
    HttpGroupServer,
    HttpMember,
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


# --- offsets ------------------------------------------------------------------------------------


def test_auto_commit_commits_what_the_poll_before_gave(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.fill(topic, 4, 1)
    member = HttpMember(server, group, topic)
    member.poll("5s", limit=2)
    assert server.committed(group) == {}  # nobody knows whether these were processed
    member.poll("5s", limit=2)
    assert server.committed(group) == {topic: {"0": 2}}
    member.leave()
    assert server.committed(group) == {topic: {"0": 4}}


def test_who_leaves_in_the_middle_of_its_work_can_say_so(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.fill(topic, 4, 1)
    member = HttpMember(server, group, topic)
    member.poll("5s")
    member.leave(commit=False)
    assert values(HttpMember(server, group, topic).poll("5s")) == [0, 1, 2, 3]


def test_auto_commit_keeps_its_interval(server: HttpGroupServer, group: str, eventually):
    topic = server.topic(1)
    server.fill(topic, 4, 1)
    member = HttpMember(server, group, topic, auto_commit_interval_ms=1_000)
    member.poll("5s", limit=1)
    member.poll("5s", limit=1)  # the first time is at once
    assert server.committed(group) == {topic: {"0": 1}}
    member.poll("5s", limit=1)
    assert server.committed(group) == {topic: {"0": 1}}
    waiting = member.poll_in_background("10s")
    waiting.result(5)
    member.poll_in_background("10s")
    eventually(lambda: server.committed(group) == {topic: {"0": 4}})


def test_without_auto_commit_only_a_commit_commits(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.fill(topic, 4, 1)
    member = HttpMember(server, group, topic, auto_commit=False)
    member.poll("5s", limit=2)
    member.poll("5s", limit=2)
    assert server.committed(group) == {}
    member.commit({topic: {0: 3}}, metadata="half way")
    (detail,) = server.get(f"/groups/{group}/offsets")["offsets"]
    assert (detail["offset"], detail["metadata"]) == (3, "half way")
    member.leave()
    assert values(HttpMember(server, group, topic).poll("5s")) == [3]


def test_a_commit_is_fenced(server: HttpGroupServer, group: str):
    topic = server.topic()
    first = HttpMember(server, group, topic, auto_commit=False)
    second = HttpMember(server, group, topic, auto_commit=False)
    first.settle([second])
    (theirs, *_) = second.partitions
    (ours, *_) = first.partitions
    commit = first.commit({topic: {ours[1]: 1}}, 409, generation=first.generation - 1)
    assert commit["error"]["code"] == "illegal_generation"
    commit = first.commit({topic: {theirs[1]: 1}}, 403)
    assert commit["error"]["code"] == "partition_not_assigned"
    first.commit({topic: {ours[1]: 1}}, 404, member_id="nobody")
    first.commit({"no-such-topic": {0: 1}}, 404)
    assert server.committed(group) == {}
    first.poll(status=409, generation=99)
    first.heartbeat(409, generation=99)


def test_who_has_to_let_go_can_commit_before(server: HttpGroupServer, group: str):
    topic = server.topic()
    first = HttpMember(server, group, topic, auto_commit=False)
    server.fill(topic, 8)
    assert len(first.poll("5s", limit=100)["messages"]) == 8
    second = HttpMember(server, group, topic, auto_commit=False)
    told = first.poll("5s")
    commit = {topic: {place["partition"]: 2 for place in told["revoked"]}}
    first.commit(commit)
    answer = server.post(
        f"/groups/{group}/revoke", member_id=first.member_id, generation=first.generation
    )
    assert answer["pending_count"] == 0
    assert second.poll("5s")["messages"] == []
    assert len(second.partitions) == 2
    first.commit(commit, 403, generation=answer["generation"])


def test_a_partial_acknowledgement_waits_for_the_rest(server: HttpGroupServer, group: str):
    topic = server.topic()
    first, _ = HttpMember(server, group, topic), HttpMember(server, group, topic)
    told = first.heartbeat()
    assert told["rebalance_required"]
    said = {"member_id": first.member_id, "generation": first.generation}
    one = server.post(f"/groups/{group}/revoke", **said, revoked_partitions=told["revoked"][:1])
    assert one["pending_count"] == 1
    assert one["state"] == "Revoking"
    both = server.post(f"/groups/{group}/revoke", **said, revoked_partitions=told["revoked"])
    assert both["pending_count"] == 0
    assert both["state"] == "Stable"


def test_a_group_can_begin_at_the_end(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.fill(topic, 5, 1)
    member = HttpMember(server, group, topic, offset_reset="latest")
    assert values(member.poll()) == []
    server.fill(topic, 1, 1, start=5)
    assert values(member.poll("5s")) == [5]


def test_messages_that_expired_are_stepped_over_and_told(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.fill(topic, 6, 1)
    server.post(f"/groups/{group}/offsets", offsets={topic: {"0": 1}})
    server.client.delete(f"/topics/{topic}/partitions/0/messages", params={"before": "4"})
    answer = HttpMember(server, group, topic).poll("5s")
    assert values(answer) == [4, 5]
    assert "continued at 4" in answer["problems"][0]


# --- restarts -----------------------------------------------------------------------------------


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path)
    server.start()
    yield server
    server.kill()


def test_a_killed_broker_forgets_neither_members_nor_offsets(own_server: HttpGroupServer):
    topic = own_server.topic()
    manual = HttpMember(own_server, "g", topic, auto_commit=False)
    other = HttpMember(own_server, "g", topic)
    manual.settle([other])
    own_server.fill(topic, 40)
    mine = sorted(partition for _, partition in manual.partitions)
    read = sorted(values(manual.poll("5s", limit=1000)))
    manual.commit({topic: dict.fromkeys(mine, 7)})
    partitions, generation = manual.partitions, manual.generation

    own_server.kill()
    own_server.start()

    again = values(manual.poll("5s", limit=1000))
    assert sorted(again) == [value for value in read if value // 4 >= 7]
    assert (manual.partitions, manual.generation) == (partitions, generation)
    manual.poll()
    manual.poll()
    assert own_server.committed("g")[topic] == dict.fromkeys(map(str, mine), 7)  # still its choice


def test_a_revocation_survives_the_broker(own_server: HttpGroupServer):
    topic = own_server.topic()
    first = HttpMember(own_server, "g", topic)
    second = HttpMember(own_server, "g", topic)
    first.poll()  # is told
    own_server.kill()
    own_server.start()
    first.settle([second])
    assert len(first.partitions) == len(second.partitions) == 2
    assert not first.partitions & second.partitions


# --- operators ----------------------------------------------------------------------------------


def test_groups_are_listed_and_described(server: HttpGroupServer, group: str):
    topic = server.topic()
    member = HttpMember(server, group, topic, client_id="worker")
    listed = {each["id"]: each for each in server.get("/groups")["groups"]}
    assert listed[group] == {
        "id": group,
        "state": "Stable",
        "members": 1,
        "generation": 1,
        "type": "consumer",
    }
    described = server.get(f"/groups/{group}")
    assert described["topics"] == [topic]
    (found,) = described["members"]
    assert (found["id"], found["client_id"]) == (member.member_id, "worker")
    assert found["protocol"] == "http"
    assert len(found["partitions"]) == 4
    page = server.get("/groups", limit=1)
    assert len(page["groups"]) == 1
    server.get("/groups/no-such-group", 404)
    assert server.get(f"/groups/{group}/assignment", member_id=member.member_id)["generation"] == 1


def test_lag_is_what_is_left_to_read(server: HttpGroupServer, group: str):
    topic = server.topic(2)
    server.fill(topic, 20, 2)
    server.post(f"/groups/{group}/offsets", offsets={topic: {"0": 4}})
    before = server.get(f"/groups/{group}/lag")
    assert before["total_lag"] == 6
    member = HttpMember(server, group, topic, client_id="worker")
    lag = server.get(f"/groups/{group}/lag")
    assert [(each["committed"], each["lag"]) for each in lag["partitions"]] == [(4, 6), (None, 10)]
    assert {each["client_id"] for each in lag["partitions"]} == {"worker"}
    assert lag["total_lag"] == 16
    while member.poll(limit=1000)["messages"]:
        pass
    member.leave()
    assert server.get(f"/groups/{group}/lag")["total_lag"] == 0


def test_offsets_are_reset_when_nobody_reads(server: HttpGroupServer, group: str):
    topic = server.topic(2)
    server.fill(topic, 20, 2)
    member = HttpMember(server, group, topic)
    reset = f"/groups/{group}/offsets/reset"
    refused = server.post(reset, 409, to="earliest", topic=topic)
    assert refused["error"]["code"] == "non_empty_group"
    assert len(server.post(reset, to="earliest", topic=topic, dry_run=True)["offsets"]) == 2
    member.leave()
    tried = server.post(reset, to="latest", topic=topic, dry_run=True)
    assert [each["after"] for each in tried["offsets"]] == [10, 10]
    assert tried["dry_run"]
    assert server.committed(group) == {}

    def moved(**wanted: Any) -> list[tuple[int | None, int]]:
        done = server.post(reset, **wanted)
        return [(each["before"], each["after"]) for each in done["offsets"]]

    assert moved(to="latest", topic=topic) == [(None, 10), (None, 10)]
    assert moved(to="shift", value=-3) == [(10, 7), (10, 7)]
    assert moved(to="offset", value=99, topic=topic, partition=1) == [(7, 10)]
    assert moved(to="timestamp", value="2020-01-01T00:00:00Z") == [(7, 0), (10, 0)]
    assert moved(to="timestamp", value=4_000_000_000_000) == [(0, 10), (0, 10)]
    assert moved(to="earliest") == [(10, 0), (10, 0)]
    assert server.committed(group) == {topic: {"0": 0, "1": 0}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": "offset"},
        {"to": "earliest", "value": 3},
        {"to": "offset", "value": -1},
        {"to": "shift", "value": "2020-01-01T00:00:00Z"},
        {"to": "yesterday"},
        {"to": "earliest", "partition": 1},
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(server: HttpGroupServer, wrong: dict):
    server.post("/groups/some/offsets/reset", 400, **wrong)


def test_a_group_is_deleted_only_when_it_is_empty(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    member = HttpMember(server, group, topic)
    assert server.client.delete(f"/groups/{group}").status_code == 409
    member.leave()
    assert server.client.delete(f"/groups/{group}").json() == {"group": group, "deleted": True}
    assert server.client.delete(f"/groups/{group}").status_code == 404


def test_offsets_from_outside_are_for_groups_without_members(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    server.post(f"/groups/{group}/offsets", offsets={topic: {"0": 3}})
    HttpMember(server, group, topic)
    refused = server.post(f"/groups/{group}/offsets", 409, offsets={topic: {"0": 1}})
    assert refused["error"]["code"] == "non_empty_group"
    assert server.committed(group) == {topic: {"0": 3}}
    server.post(f"/groups/{group}/offsets", 404, offsets={topic: {"9": 1}})


def test_paths_below_v1_are_the_same(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    for number, prefix in enumerate(("", "/v1")):
        path = f"{prefix}/groups/{group}-{number}"
        joined = server.post(f"{path}/join", topics=[topic])
        said = {"member_id": joined["member_id"], "generation": joined["generation"]}
        assert server.post(f"{path}/heartbeat", **said)["state"] == "Stable"
        assert server.get(path)["state"] == "Stable"
        assert server.get(f"{path}/poll", **said, timeout="0")["messages"] == []
        assert server.post(f"{path}/leave", member_id=said["member_id"])["left"]
    assert server.get("/rebalance/stats")["total_rebalances"] > 0


def test_a_join_says_what_is_wrong(server: HttpGroupServer, group: str):
    join = f"/groups/{group}/join"
    server.post(join, 400)
    server.post(join, 400, topics=["no/name"])
    server.post(join, 404, topics=["no-such-topic"])
    server.post(join, 400, topics_regex="(")
    server.post(join, 400, topics=[server.topic(1)], assignor="chance")
    server.get(f"/groups/{group}", 404)

"""Requests about consumer groups: what is said, and which may be sent twice."""

import msgspec
import pytest

from goqueue.client.http.calls import groups


def body(call) -> object:
    return msgspec.json.decode(call.body)


def test_pages_of_groups_begin_at_the_first():
    assert groups.groups().query == groups.groups("").query == {}
    assert groups.groups("g").query == {"after": "g"}


@pytest.mark.parametrize("to", ["earliest", "latest", "offset", "timestamp", "shift"])
def test_a_reset_may_be_repeated_unless_it_counts_from_where_the_group_is(to):
    call = groups.reset_offsets("g", to, value=5, topic="t")
    assert call.path == "/groups/g/offsets/reset"
    assert body(call) == {"to": to, "value": 5, "topic": "t", "dry_run": False}
    assert call.is_repeatable is (to != "shift")


@pytest.mark.parametrize(("member_id", "is_repeatable"), [("m", True), ("", False)])
def test_whoever_names_itself_may_join_twice(member_id, is_repeatable):
    call = groups.join_group("g", member_id, ("t",), {"auto_commit": False, "topics": ["other"]})
    assert body(call) == {"auto_commit": False, "topics": ["t"], "member_id": member_id}
    assert call.is_repeatable is is_repeatable


@pytest.mark.parametrize(("seen", "is_repeatable"), [(None, False), (0, True), (7, True)])
def test_a_poll_that_says_what_it_saw_may_be_repeated(seen, is_repeatable):
    call = groups.poll_group("g", "m", 4, result=dict, seen=seen, wait_ms=2_500)
    assert call.is_repeatable is is_repeatable
    assert call.query.get("seen") == (None if seen is None else str(seen))
    assert (call.query["timeout"], call.wait_seconds) == ("2500", 2.5)


def test_only_a_member_names_itself_when_it_commits():
    offsets = {"t": {0: 5}}
    assert body(groups.commit_offsets("g", offsets, generation=4)) == {"offsets": {"t": {"0": 5}}}
    mine = groups.commit_offsets("g", offsets, member_id="m", generation=4)
    assert body(mine) == {"offsets": {"t": {"0": 5}}, "member_id": "m", "generation": 4}
    assert mine.is_repeatable


def test_a_heartbeat_may_be_sent_twice_and_a_farewell_not():
    assert groups.heartbeat("g", "m", 4).is_repeatable
    leaving = groups.leave_group("g", "m", commit=False)
    assert not leaving.is_repeatable
    assert body(leaving) == {"member_id": "m", "commit": False}
    assert not groups.delete_group("a/b").is_repeatable
    assert groups.delete_group("a/b").path == "/groups/a%2Fb"


def test_each_view_of_a_group_has_its_path():
    assert groups.group("g").path == "/groups/g"
    assert groups.group_offsets("g").path == "/groups/g/offsets"
    assert groups.group_lag("g").path == "/groups/g/lag"

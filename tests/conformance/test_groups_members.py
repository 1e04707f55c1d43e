"""Members of every client come, go, hang, crash and restart; see `group_members`."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.group_members import KINDS, Journal, Member
from tests.conformance.group_server import GroupServer

ALL = frozenset(range(4))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    server = GroupServer(tmp_path_factory.mktemp("groups"))
    server.start()
    yield server
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def topic(server: GroupServer) -> str:
    return server.topic()


Enter = Callable[..., Member]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def enter(server: GroupServer, topic: str, kind: str, journal: Journal) -> Iterator[Enter]:
    """Start a member of the group; those still there at the end are closed."""
    entered: list[Member] = []
    group = f"group-{uuid.uuid4().hex[:8]}"

    def enter(name: str = "a", **settings: Any) -> Member:
        settings.setdefault("group", group)
        member = KINDS[kind](server.address, topics=[topic], journal=journal, name=name, **settings)
        entered.append(member)
        return member

    yield enter
    for member in entered:
        member.close()


def divided(*members: Member) -> bool:
    """Is every partition with exactly one of them, and each has a fair share?"""
    shares = [member.assigned for member in members]
    return (
        frozenset().union(*shares) == ALL
        and sum(map(len, shares)) == len(ALL)
        and max(map(len, shares)) - min(map(len, shares)) <= 1
    )


def test_partitions_are_divided_anew_when_members_join_and_leave(
    server, topic, enter, journal, eventually
):
    server.fill(topic, 200)
    first = enter("first")
    eventually(lambda: divided(first))
    second = enter("second")
    eventually(lambda: divided(first, second))
    server.fill(topic, 200, start=200)
    eventually(lambda: journal.values() == set(range(400)))
    second.close()
    eventually(lambda: divided(first))
    server.fill(topic, 200, start=400)
    eventually(lambda: journal.values() == set(range(600)))
    assert journal.events("read", "second")
    journal.check_nobody_reads_below_a_commit()
    journal.check_nothing_is_skipped()


def test_a_killed_member_loses_its_partitions_after_its_session(
    server, topic, kind, enter, journal, eventually
):
    first = enter("first", group=f"killed-{kind}")
    eventually(lambda: divided(first))
    argv = [sys.executable, "-m", "tests.conformance.group_members"]
    argv += [kind, server.address, first.group, topic]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as victim:
        assert victim.stdout is not None
        while len(victim.stdout.readline().split()) != 2:
            assert victim.poll() is None
        eventually(lambda: len(first.assigned) == 2)
        victim.kill()
    server.fill(topic, 100)
    eventually(lambda: divided(first))
    eventually(lambda: journal.values() == set(range(100)))


def test_a_static_member_restarts_without_a_rebalance(topic, enter, journal, eventually):
    first = enter("first", instance="one")
    eventually(lambda: divided(first))
    second = enter("second", instance="two")
    eventually(lambda: divided(first, second))
    had = second.assigned
    before = len(journal.events("revoked", "first"))
    second.close()
    again = enter("again", instance="two")
    eventually(lambda: again.assigned == had)
    assert len(journal.events("revoked", "first")) == before
    assert divided(first, again)


def test_a_commit_is_where_the_next_member_begins(server, topic, enter, journal, eventually):
    server.fill(topic, 40)
    with enter("first", commits=False) as first:
        eventually(lambda: journal.values() == set(range(40)))
        first.commit(0, 7)
        assert (first.committed(0), first.committed(1)) == (7, None)
        first.commit_soon()
        eventually(lambda: first.committed(1) == 10)
        first.commit(0, 7)
    second = enter("second")
    eventually(lambda: len(journal.events("read", "second")) == 3)
    assert [read.offset for read in journal.events("read", "second")] == [7, 8, 9]
    assert {read.partition for read in journal.events("read", "second")} == {0}
    eventually(lambda: second.committed(0) == 10)


def test_seek_pause_and_resume(server, topic, enter, journal, eventually):
    server.fill(topic, 40)
    member = enter(commits=False)
    eventually(lambda: journal.values() == set(range(40)))

    def offsets(partition: int) -> list[int]:
        return [read.offset for read in journal.events("read") if read.partition == partition]

    member.seek(1, 4)
    eventually(lambda: len(offsets(1)) == 16)
    assert offsets(1)[10:] == list(range(4, 10))
    member.pause(2)
    server.fill(topic, 40, start=40)
    eventually(lambda: {len(offsets(partition)) for partition in (0, 1, 3)} == {20, 26})
    assert len(offsets(2)) == 10
    member.resume(2)
    eventually(lambda: offsets(2) == list(range(20)))


def test_a_pattern_subscribes_to_topics_of_today_and_tomorrow(server, enter, journal, eventually):
    prefix = f"pattern-{uuid.uuid4().hex[:6]}"
    server.fill(server.topic(2, prefix=prefix), 20, partitions=2)
    enter(regex=f"^{prefix}-.*")
    eventually(lambda: journal.values() == set(range(20)))
    server.fill(server.topic(2, prefix=prefix), 20, partitions=2, start=20)
    eventually(lambda: journal.values() == set(range(40)))


def test_two_groups_read_everything_each(server, topic, enter, journal, eventually):
    server.fill(topic, 60)
    enter("first", group=f"one-{topic}")
    enter("second", group=f"two-{topic}")
    for name in ("first", "second"):
        eventually(lambda name=name: len(journal.events("read", name)) == 60)


def test_cooperative_members_keep_reading_what_they_keep(
    server, topic, kind, enter, journal, eventually
):
    if not KINDS[kind].knows_cooperative:
        pytest.skip("the client has no cooperative assignor")
    first = enter("first", cooperative=True)
    eventually(lambda: divided(first))
    second = enter("second", cooperative=True)
    eventually(lambda: divided(first, second))
    revoked = {event.partition for event in journal.events("revoked", "first")}
    assert revoked == second.assigned
    server.fill(topic, 40)
    eventually(lambda: journal.values() == set(range(40)))


def test_a_live_group_moves_from_the_classic_to_the_consumer_protocol_and_back(
    server, topic, journal, eventually
):
    settings: dict[str, Any] = {"group": "moving", "topics": [topic], "journal": journal}
    classic, modern = KINDS["confluent-classic"], KINDS["confluent-consumer"]
    server.fill(topic, 40)
    with classic(server.address, name="old", **settings) as old:
        eventually(lambda: divided(old))
        with modern(server.address, name="new", **settings) as new:
            eventually(lambda: divided(old, new))
            server.fill(topic, 40, start=40)
            eventually(lambda: journal.values() == set(range(80)))
            old.close()
            eventually(lambda: divided(new))
            with classic(server.address, name="older", **settings) as older:
                eventually(lambda: divided(new, older))
                new.close()
                eventually(lambda: divided(older))
                server.fill(topic, 40, start=80)
                eventually(lambda: journal.values() == set(range(120)))
    journal.check_nobody_reads_below_a_commit()
    journal.check_nothing_is_skipped()

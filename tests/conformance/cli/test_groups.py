"""`goqueue group` and `goqueue consume --group` against a server."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from goqueue.client import Client, GroupReading, Message
from tests.conformance.cli.commands import (
    COMMAND,
    Run,
    RunningServer,
    decoded,
    environment,
)


@pytest.fixture
def orders(client: Client, names: Iterator[str]) -> str:
    """A topic of two partitions with ten messages in each."""
    name = next(names)
    client.create_topic(name, partitions=2)
    client.publish(name, [Message(str(number), partition=number % 2) for number in range(20)])
    return name


@pytest.fixture
def readers(client: Client, orders: str) -> Iterator[GroupReading]:
    """A group with one member, which has read everything and committed half of one partition."""
    reading = GroupReading(f"readers-of-{orders}", [orders], client_id="worker", auto_commit=False)
    client.join(reading)
    assert len(client.poll(reading, limit=100, wait_ms=5_000)) == 20
    client.commit(reading, {orders: {0: 5}})
    yield reading
    if reading.partitions:
        client.leave(reading)


def leave(client: Client, reading: GroupReading) -> None:
    client.leave(reading)
    reading.partitions = []


# --- looking --------------------------------------------------------------------------------------


def test_a_group_is_listed_and_described(
    run: Run, readers: GroupReading, orders: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "160")
    listed = {each["id"]: each for each in decoded(run("group", "list"))}
    assert listed[readers.group]["members"] == 1
    described = decoded(run("group", "describe", readers.group))
    assert described["state"] == "Stable"
    assert described["total_lag"] == 15
    (member,) = decoded(run("group", "members", readers.group))
    assert member["client_id"] == "worker"
    assert member["protocol"] == "http"
    shown = run("group", "describe", readers.group, "--output", "table").stdout
    assert f"{orders}/0,1" in shown
    assert "Stable" in run("group", "list", "-o", "table").stdout


def test_lag_and_offsets_are_shown(run: Run, readers: GroupReading, orders: str):
    lag = decoded(run("group", "lag", readers.group))
    assert [(each["committed"], each["lag"]) for each in lag["partitions"]] == [(5, 5), (None, 10)]
    table = run("group", "lag", readers.group, "-o", "table").stdout
    assert table.splitlines()[-1].split() == ["total", "15"]
    (offset,) = decoded(run("group", "offsets", readers.group))
    assert (offset["topic"], offset["offset"]) == (orders, 5)


def test_lag_is_watched_until_interrupted(running: RunningServer, readers: GroupReading):
    with subprocess.Popen(
        [*COMMAND, "group", "lag", readers.group, "--watch", "--interval", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "GOQUEUE_SERVER": running.url},
    ) as watching:
        assert watching.stdout is not None
        seen = 0
        for line in watching.stdout:
            seen += '"total_lag": 15' in line
            if seen == 3:
                break
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
    assert watching.returncode == 130


def test_a_group_that_is_not_there_is_said_so(run: Run):
    assert "no group" in run("group", "describe", "nobody", code=4).stderr
    assert "no group" in run("group", "lag", "nobody", code=4).stderr


# --- changing -------------------------------------------------------------------------------------


def test_offsets_are_moved_when_nobody_reads(
    run: Run, client: Client, readers: GroupReading, orders: str
):
    reset = ("group", "reset-offsets", readers.group)
    assert "members" in run(*reset, "--to-earliest", "--force", code=5).stderr
    leave(client, readers)

    def moved(*arguments: str) -> list[tuple[int | None, int]]:
        return [(each["before"], each["after"]) for each in decoded(run(*reset, *arguments))]

    assert moved("--to-latest", "--topic", orders, "--dry-run") == [(5, 10), (None, 10)]
    assert [each.offset for each in client.group_offsets(readers.group)] == [5]
    assert moved("--to-latest", "--topic", orders, "--force") == [(5, 10), (None, 10)]
    assert moved("--shift=-4", "--force") == [(10, 6), (10, 6)]
    assert moved("--to-offset", "2", "-t", orders, "-p", "1", "--force") == [(6, 2)]
    assert moved("--to-time", "-1h", "--force") == [(6, 0), (2, 0)]
    assert "AFTER" in run(*reset, "--to-earliest", "--dry-run", "-o", "table").stdout


def test_a_reset_needs_one_destination_and_somebody_to_ask(run: Run):
    assert "one of" in run("group", "reset-offsets", "g", "--force", code=2).stderr
    two = ("--to-earliest", "--to-latest", "--force")
    assert "one of" in run("group", "reset-offsets", "g", *two, code=2).stderr
    assert "--force" in run("group", "reset-offsets", "g", "--to-latest", code=2).stderr


def test_a_group_is_deleted(run: Run, client: Client, readers: GroupReading):
    run("group", "delete", readers.group, code=2)
    run("group", "delete", readers.group, "--force", code=5)
    leave(client, readers)
    assert decoded(run("group", "delete", readers.group, "-f"))["deleted"] is True
    run("group", "delete", readers.group, "-f", code=4)


# --- reading --------------------------------------------------------------------------------------


def test_consume_reads_as_a_member_and_commits(run: Run, client: Client, orders: str):
    group = f"consumers-of-{orders}"
    first = run("consume", orders, "--group", group, "--limit", "7").stdout.split()
    rest = run("consume", orders, "--group", group).stdout.split()
    assert sorted(map(int, first + rest)) == list(range(20))
    assert client.group_lag(group).total_lag == 0
    assert client.group(group).members == []


def test_consume_as_a_member_takes_no_place_to_begin(run: Run, orders: str):
    failed = run("consume", orders, "--group", "g", "--partition", "0", code=2)
    assert "--group" in failed.stderr


def test_a_group_can_begin_with_what_comes(run: Run, client: Client, orders: str):
    group = f"late-readers-of-{orders}"
    assert run("consume", orders, "-g", group, "--from-latest").stdout == ""
    client.publish(orders, [Message("new", partition=0)])
    assert run("consume", orders, "-g", group, "-n", "1").stdout.split() == ["new"]

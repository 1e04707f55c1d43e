"""`goqueue queue`, `goqueue dlq` and both clients' verbs of queues against a server."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from goqueue.client import AsyncClient, Client, Message
from goqueue.client.errors import Conflict, NotFound, TooManyInFlight
from tests.conformance.cli.commands import (
    COMMAND,
    Run,
    RunningServer,
    decoded,
    environment,
)

GROUP = "workers"
Eventually = Callable[..., None]


@pytest.fixture
def orders(client: Client, names: Iterator[str]) -> str:
    """A topic of one partition with three messages."""
    name = next(names)
    client.create_topic(name, partitions=1)
    client.publish(name, [Message(text, key="k") for text in ("one", "two", "three")])
    return name


# --- queue ----------------------------------------------------------------------------------------


def test_receive_and_settle_by_receipts(run: Run, client: Client, orders: str):
    found = decoded(run("queue", "receive", orders, "-g", GROUP, "-n", "3", "--consumer", "me"))
    assert [each["value"] for each in found] == ["one", "two", "three"]
    first, second, third = [each["receipt_handle"] for each in found]
    (acked,) = decoded(run("queue", "ack", first))
    assert acked["action"] == "acked"
    (again,) = decoded(run("queue", "nack", "-", "--delay", "1h", "--reason", "r", text=second))
    assert again["action"] == "requeued"
    assert decoded(run("queue", "extend", third, "--for", "5m"))[0]["action"] == "extended"
    (held,) = decoded(run("queue", "in-flight", "-g", GROUP, "--topic", orders))
    assert (held["consumer"], held["offset"]) == ("me", 2)
    assert decoded(run("queue", "release", third))[0]["action"] == "released"
    assert [each["value"] for each in decoded(run("queue", "peek", orders, "-g", GROUP))] == [
        "three"
    ]
    run("queue", "ack", "nonsense", code=2)
    run("queue", "ack", f"{orders}:0:0:9:fffffffffffffff.{GROUP}", code=4)
    run("queue", "ack", second, code=5)
    stats = decoded(run("queue", "stats", "-g", GROUP))
    assert stats["groups"][0]["totals"]["nacked"] >= 1
    assert "RECEIPT" in run("queue", "receive", orders, "-g", GROUP, "--ack", "-o", "table").stdout
    assert client.in_flight(GROUP, topic=orders) == []


def test_a_topic_s_messages_live_as_long_as_it_says(
    run: Run, client: Client, names: Iterator[str], eventually: Eventually
):
    topic = next(names)
    run("topic", "create", topic, "--set", "goqueue.ttl.ms=1")
    run("produce", topic, "-m", "old")
    eventually(lambda: decoded(run("queue", "receive", topic, "-g", GROUP)) == [])
    eventually(lambda: client.dead_letters(topic).count == 1)
    run("topic", "alter", topic, "--unset", "goqueue.ttl.ms", "--set", "goqueue.expired=drop")
    run("produce", topic, "-m", "new")
    (found,) = decoded(run("queue", "receive", topic, "-g", GROUP, "--ack"))
    assert found["value"] == "new"
    run("topic", "alter", topic, "--set", "goqueue.expired=burn", code=2)


def test_settings_are_shown_and_changed(run: Run):
    changed = decoded(
        run(
            "queue",
            "settings",
            "-g",
            "tuned",
            "--set",
            "weights=9,4,3,2,1",
            "--set",
            "start=latest",
        )
    )
    assert (changed["weights"], changed["start"]) == ([9, 4, 3, 2, 1], "latest")
    assert decoded(run("queue", "settings", "-g", "tuned")) == changed
    assert decoded(run("queue", "settings", "-g", "tuned", "--reset"))["start"] == "earliest"
    run("queue", "settings", "-g", "tuned", "--set", "max_failures=0", code=2)


def test_work_runs_a_command_for_each_message(
    run: Run, client: Client, orders: str, tmp_path: Path
):
    out = tmp_path / "out"
    line = f'echo "$GOQUEUE_KEY $GOQUEUE_ATTEMPT $(cat)" >> {out}'
    done = run("queue", "work", orders, "-g", f"{orders}-work", "--until-empty", line)
    assert out.read_text().splitlines() == ["k 1 one", "k 1 two", "k 1 three"]
    assert "3 done, 0 failed" in done.stderr
    assert client.peek(orders, f"{orders}-work") == []


def test_work_nacks_what_fails(run: Run, client: Client, orders: str, eventually: Eventually):
    group = f"{orders}-fails"
    client.change_queue_settings(group, {"max_failures": 1})
    command = ("--", "sh", "-c", "echo away >&2; exit 7")
    done = run("queue", "work", orders, "-g", group, "-n", "1", *command)
    assert "exit 7: away" in done.stderr
    eventually(lambda: client.dead_letters(orders).count == 1)
    (letter,) = client.dead_letters(orders).messages
    assert (letter.value, letter.error) == (b"one", "exit 7: away")


def test_work_ends_politely(running: RunningServer, client: Client, orders: str):
    argv = [*COMMAND, "-s", running.url, "queue", "work", orders, "-g", f"{orders}-polite", "cat"]
    worker = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert worker.stderr is not None
    for _ in range(3):
        assert worker.stderr.readline().endswith("done\n")
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate(timeout=60)
    assert (worker.returncode, out) == (0, "onetwothree"), err
    assert client.in_flight(f"{orders}-polite") == []


# --- dead letters ---------------------------------------------------------------------------------


def test_a_redrive_in_the_background_tells_how_far_it_is(
    run: Run, client: Client, names: Iterator[str], eventually: Eventually
):
    topic = next(names)
    client.create_topic(topic, partitions=1)
    messages = [Message(str(n), headers=(("kind", str(n % 2)),)) for n in range(20)]
    client.publish(topic, messages)
    client.reject(*client.receive(topic, GROUP, max_messages=20), reason="bad")
    eventually(lambda: client.dead_letters(topic).count == 20)
    odd = decoded(run("dlq", "list", topic, "--header", "kind=1"))
    assert [each["value"] for each in odd["letters"]] == [str(n) for n in range(1, 20, 2)]
    (started,) = decoded(run("dlq", "redrive", topic, "--header", "kind=1", "--background"))
    eventually(lambda: client.redrives(topic)[0].state == "done")
    assert (client.redrives(topic)[0].id, client.redrives(topic)[0].moved) == (started["id"], 10)
    (slow,) = decoded(run("dlq", "redrive", topic, "--rate", "1", "--background"))
    (ended,) = decoded(run("dlq", "redrives", topic, "--cancel", slow["id"]))
    assert ended["state"] == "cancelled"
    run("dlq", "redrives", topic, "--cancel", "nothing", code=4)
    assert "cancelled" in run("dlq", "redrives", topic, "-o", "table").stdout
    assert client.dead_letters(topic).count >= 8
    run("dlq", "purge", topic, "--header", "kind=0", "--force")
    assert client.dead_letters(topic).count == 0


def test_dead_letters_are_listed_redriven_and_purged(
    run: Run, client: Client, orders: str, eventually: Eventually
):
    client.reject(*client.receive(orders, GROUP, max_messages=3), reason="bad")
    eventually(lambda: client.dead_letters(orders).count == 3)
    listed = decoded(run("dlq", "list", orders, "--reason", "rejected", "--since", "-1h"))
    assert (listed["count"], listed["reasons"]) == (3, {"rejected": 3})
    shown = decoded(run("dlq", "show", orders, "0/1"))
    assert (shown["value"], shown["error"], shown["group"]) == ("two", "bad", GROUP)
    assert "rejected" in run("dlq", "list", orders, "-o", "table").stdout
    assert "two" in run("dlq", "show", orders, "0/1", "-o", "table").stdout
    run("dlq", "show", orders, "0/99", code=4)
    run("dlq", "show", orders, "nonsense", code=2)
    assert decoded(run("dlq", "redrive", orders, "--dry-run"))["moved"] == 3
    assert decoded(run("dlq", "redrive", orders, "0/1"))["moved"] == 1
    assert decoded(run("dlq", "redrive", orders, "--rate", "1000", "-n", "1"))["moved"] == 1
    run("dlq", "purge", orders, code=2)
    assert decoded(run("dlq", "purge", orders, "--force"))["purged"] == 1
    back = client.receive(orders, GROUP, max_messages=3)
    assert sorted(each.value or b"" for each in back) == [b"one", b"two"]
    client.ack(*back)


# --- the clients ----------------------------------------------------------------------------------


def test_the_client_tells_refusals_apart(client: Client, orders: str):
    group = f"{orders}-client"
    client.change_queue_settings(group, {"max_in_flight_consumer": 1})
    (message,) = client.receive(orders, group, consumer="me", max_messages=5)
    assert (message.value, message.attempt, message.priority) == (b"one", 1, "normal")
    with pytest.raises(TooManyInFlight):
        client.receive(orders, group, consumer="me")
    client.release(message)
    with pytest.raises(Conflict):
        client.nack(message)
    with pytest.raises(NotFound):
        client.ack(f"{orders}:0:0:9:fffffffffffffff.{group}")
    (again,) = client.receive(orders, group, consumer="me")
    good, bad = client.ack(again, "nonsense")
    assert (good.action, bad.action) == ("acked", "")
    assert bad.error is not None
    assert bad.error.code == "receipt_malformed"


async def test_the_asynchronous_client_has_the_same_verbs(running: RunningServer, orders: str):
    async with AsyncClient(running.url) as client:
        urgent = Message(b"\xff", priority="critical", ttl_ms=60_000)
        await client.publish(orders, [urgent])
        group = f"{orders}-async"
        found = await client.receive(orders, group, max_messages=4, wait_ms=5_000)
        assert found[0].value == b"\xff"
        assert ("gq-ttl-ms", b"60000") in found[0].headers
        await client.extend(*found, visibility_ms=60_000)
        await client.ack(*found[:3])
        (left,) = await client.in_flight(group)
        assert await client.ack_range(orders, group, 0, left.offset, left.offset) == [left.offset]
        assert (await client.queue_stats(group)).in_flight == 0
        assert (await client.priority_stats(group)).lanes["critical"].delivered == 1

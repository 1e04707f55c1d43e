"""The command line against a server that the command line started."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client, Message
from tests.conformance.cli.commands import (
    COMMAND,
    FREE_PORTS,
    Run,
    RunningServer,
    decoded,
    environment,
)


@pytest.fixture
def orders(run: Run, names: Iterator[str]) -> str:
    """A topic of two partitions."""
    name = next(names)
    run("topic", "create", name, "--partitions", "2")
    return name


# --- the server -----------------------------------------------------------------------------------


def test_version_asks_the_server(run: Run, running: RunningServer):
    server = decoded(run("version"))["server"]
    assert server["url"] == running.url
    assert server["version"]


def test_a_second_server_on_the_same_data_says_why_it_does_not_start(tmp_path: Path):
    first = RunningServer(tmp_path, *FREE_PORTS)
    try:
        second = ran("server", "--data-dir", str(tmp_path / "data"), *FREE_PORTS)
    finally:
        assert first.end(signal.SIGINT) == 0
    assert second.returncode == 1
    assert "choose another --data-dir" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_named(tmp_path: Path, running: RunningServer):
    data = ("--data-dir", str(tmp_path))
    done = ran("server", *data, "--kafka", running.kafka, "--http", "127.0.0.1:0")
    assert done.returncode == 1
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr


def ran(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment(),
    )


# --- topics ---------------------------------------------------------------------------------------


def test_a_topic_s_life(run: Run, names: Iterator[str]):
    name = next(names)
    created = run("topic", "create", name, "-p", "2", "--set", "retention.ms=60000")
    assert decoded(created) == {"name": name, "partitions": 2, "created": True}
    assert "exists" in run("topic", "create", name, code=5).stderr
    assert decoded(run("topic", "create", name, "--if-not-exists"))["created"] is False
    assert name in [each["name"] for each in decoded(run("topic", "list"))]
    described = decoded(run("topic", "describe", name))
    assert described["settings"]["retention.ms"] == "60000"
    assert described["partition_offsets"]["1"]["next_offset"] == 0
    altered = run(
        "topic", "alter", name, "--set", "max.message.bytes=2000", "--unset", "retention.ms"
    )
    assert decoded(altered)["max.message.bytes"] == "2000"
    assert decoded(altered)["retention.ms"] != "60000"
    assert decoded(run("topic", "add-partitions", name, "-p", "5"))["partitions"] == 5
    run("topic", "delete", name, code=2)
    run("topic", "delete", name, "--force")
    run("topic", "describe", name, code=4)


def test_tables_and_yaml_for_those_who_ask(run: Run, orders: str):
    assert "PARTITIONS" in run("topic", "list", "-o", "table").stdout
    table = run("--output", "table", "topic", "describe", orders).stdout
    assert "EARLIEST" in table
    assert "cleanup.policy" in table
    assert f"name: {orders}" in run("topic", "describe", orders, "-o", "yaml").stdout


def test_the_shell_completes_names_of_topics(run: Run, running: RunningServer, orders: str):
    typed = {"COMP_WORDS": f"goqueue topic describe {orders[:10]}", "COMP_CWORD": "3"}
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={
            **environment(),
            **typed,
            "GOQUEUE_SERVER": running.url,
            "_GOQUEUE_COMPLETE": "complete_bash",
        },
    )
    assert orders in done.stdout.split()


def test_a_bad_setting_is_the_caller_s_mistake(run: Run, orders: str):
    assert "retention.m" in run("topic", "alter", orders, "--set", "retention.m=1", code=2).stderr


# --- messages -------------------------------------------------------------------------------------


def test_messages_given_as_arguments_come_back(run: Run, orders: str):
    sent = run("produce", orders, "-m", "one", "-m", "zwei ä", "-k", "k", "-H", "h=1", "-p", "1")
    facts = decoded(sent)
    assert (facts["published"], facts["failed"]) == (2, 0)
    assert [(r["partition"], r["offset"]) for r in facts["results"]] == [(1, 0), (1, 1)]
    assert run("consume", orders).stdout == "one\nzwei ä\n"
    shown = run("consume", orders, "--format", r"{partition}/{offset} {key} {value} {headers}\n")
    assert shown.stdout == "1/0 k one h=1\n1/1 k zwei ä h=1\n"
    columns = run("consume", orders, "-o", "table", "-n", "1").stdout.splitlines()
    assert columns[0].split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert len(columns) == 2


def test_lines_of_a_pipe_come_back_in_order(run: Run, names: Iterator[str]):
    topic = next(names)
    run("topic", "create", topic, "-p", "1")
    text = "".join(f"line {number}\n" for number in range(2_500))
    assert decoded(run("produce", topic, text=text))["published"] == 2_500
    assert run("consume", topic).stdout == text
    assert run("consume", topic, "--offset", "-2").stdout == "line 2498\nline 2499\n"
    assert run("consume", topic, "-p", "0", "--offset", "7", "-n", "1").stdout == "line 7\n"


def test_a_topic_can_be_copied_through_json(run: Run, names: Iterator[str], tmp_path: Path):
    source, target = next(names), next(names)
    run("topic", "create", source, "-p", "2")
    run("topic", "create", target, "-p", "2")
    with_keys = tmp_path / "lines"
    with_keys.write_bytes(b"a=1\nb=\xff\xfe\nplain\n")
    run("produce", source, "-f", str(with_keys), "--key-separator", "=", "-H", "x=y")
    run("produce", source, "--tombstone", "-k", "a")
    dump = run("consume", source, "--format", "json").stdout
    run("produce", target, "--format", "json", text=dump)
    copied = run("consume", target, "-o", "json").stdout
    assert copied.replace(target, source) == dump
    assert '"encoding":"base64"' in dump


def test_filters_choose_by_key_and_header(run: Run, orders: str):
    run("produce", orders, "-m", "1", "-k", "a", "-H", "x=1", "-H", "y=2")
    run("produce", orders, "-m", "2", "-k", "b", "-H", "x=1")
    run("produce", orders, "-m", "3", "-k", "a")
    assert run("consume", orders, "--key", "a").stdout == "1\n3\n"
    assert run("consume", orders, "--header", "x=1").stdout == "1\n2\n"
    assert run("consume", orders, "--header", "x=1", "--header", "y=2").stdout == "1\n"
    assert run("consume", orders, "--key", "a", "-n", "1").stdout == "1\n"


def test_times_choose_a_range(run: Run, orders: str):
    for hours, value in ((3, "old"), (2, "middle"), (1, "new")):
        run("produce", orders, "-m", value, "--timestamp", f"-{hours}h", "-p", "0")
    assert run("consume", orders, "--from-time", "-2h30m").stdout == "middle\nnew\n"
    assert run("consume", orders, "--to-time", "-90m").stdout == "old\nmiddle\n"
    both = run("consume", orders, "--from-time", "-150m", "--to-time", "-90m").stdout
    assert both == "middle\n"
    assert run("consume", orders, "--from-latest").stdout == ""


def test_a_message_that_is_refused_is_counted_and_shown(run: Run, names: Iterator[str]):
    topic = next(names)
    run("topic", "create", topic, "--set", "max.message.bytes=1000")
    large = "x" * 5_000
    done = run("produce", topic, "-m", "small", "-m", large, "-p", "0", code=1)
    assert (decoded(done)["published"], decoded(done)["failed"]) == (1, 1)
    assert "1 messages were not published" in done.stderr
    done = run("produce", topic, text=f"{large}\n", code=1)
    assert (decoded(done)["published"], decoded(done)["failed"]) == (0, 1)


def test_a_topic_that_is_not_there_ends_with_4(run: Run, names: Iterator[str]):
    run("consume", next(names), code=4)
    run("consume", next(names), "--follow", code=4)


# --- ends -----------------------------------------------------------------------------------------


def test_a_reader_that_has_enough_ends_it_quietly(run: Run, running: RunningServer, orders: str):
    run("produce", orders, text="".join(f"{'x' * 100}\n" for _ in range(5_000)))
    command = " ".join([*COMMAND, "consume", orders, "--server", running.url])
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {command} | head -n 1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_following_shows_what_comes_and_ctrl_c_ends_it_quietly(
    run: Run, running: RunningServer, orders: str
):
    run("produce", orders, "-m", "before")
    follower = subprocess.Popen(
        [*COMMAND, "consume", orders, "--follow", "--server", running.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "before\n"
        run("produce", orders, "-m", "after")
        assert follower.stdout.readline() == "after\n"
        follower.send_signal(signal.SIGINT)
        rest, errors = follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert (follower.returncode, rest, errors) == (130, "", "")


def test_a_slow_pipe_is_sent_as_it_comes(run: Run, running: RunningServer, orders: str):
    producer = subprocess.Popen(
        [*COMMAND, "produce", orders, "--server", running.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert producer.stdin is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        with Client(running.url) as client:
            assert next(client.follow(orders)).value == b"first"
        producer.stdin.close()
        assert producer.wait(10) == 0
    finally:
        producer.kill()


def test_following_goes_on_through_a_restart(tmp_path: Path):
    first = RunningServer(tmp_path, *FREE_PORTS)
    same_ports = ("--kafka", first.kafka, "--http", first.url.removeprefix("http://"))
    with Client(first.url) as client:
        client.create_topic("t", partitions=1)
        publish_one(client, "before")
        messages = client.follow("t")
        assert next(messages).value == b"before"
        assert first.end() == 0
        second = RunningServer(tmp_path, *same_ports)
        try:
            publish_one(client, "after")
            assert next(messages).value == b"after"
        finally:
            second.end()


def publish_one(client: Client, value: str) -> None:
    client.publish("t", [Message(value)])


def test_lines_without_keys_are_spread_over_the_partitions(run: Run, client: Client):
    run("topic", "create", "spread", "--partitions", "6")
    run("produce", "spread", text="".join(f"{number}\n" for number in range(1000)))
    offsets = client.topic("spread").partition_offsets
    assert sorted(each.next_offset for each in offsets.values()) == [150, 150, 150, 150, 200, 200]

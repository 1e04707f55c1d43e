"""`goqueue produce`: messages from options, a file or a pipe, and what is told of them."""

from pathlib import Path

import pytest

from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import facts, run


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tombstone",),
        ("--tombstone", "--key", "k", "-m", "x"),
        ("--format", "xml"),
        ("-m", "x", "--timestamp", "soon"),
        ("--file", "/there/is/no/such/file"),
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: tuple[str, ...]):
    assert "Traceback" not in run("produce", "t", *arguments, code=2).output


def test_messages_of_options_have_their_key_headers_and_results(server: BrokerInThread):
    server.create_topic("options")
    told = facts("produce", "options", "-m", "one", "-m", "two", "-k", "key", "-H", "tenant=a")
    assert (told["published"], told["failed"], told["unknown"]) == (2, 0, 0)
    assert [each["offset"] for each in told["results"]] == [0, 1]
    (first, second) = server.read("options")
    assert (first.value, first.key, first.headers) == (b"one", b"key", (("tenant", b"a"),))
    assert second.value == b"two"


def test_lines_of_a_file_and_of_a_pipe_are_messages(server: BrokerInThread, tmp_path: Path):
    server.create_topic("lines")
    file = tmp_path / "lines"
    file.write_text("1\n2\n")
    assert facts("produce", "lines", "--file", file)["published"] == 2
    told = facts("produce", "lines", "--file", "-", input="3\n")
    assert told["published"] == 1
    assert "results" not in told, "of many they would be too many"
    assert [message.value for message in server.read("lines")] == [b"1", b"2", b"3"]


def test_a_tombstone_has_a_key_and_no_value(server: BrokerInThread):
    server.create_topic("tombstones")
    run("produce", "tombstones", "--tombstone", "--key", "k", code=0)
    (message,) = server.read("tombstones")
    assert (message.key, message.value) == (b"k", None)


def test_a_refused_message_is_told_and_ends_with_1(server: BrokerInThread):
    server.create_topic("small", settings={"max.message.bytes": "200"})
    result = run("produce", "small", "-m", "fits", "-m", "x" * 1000, code=1)
    assert "1 messages were not published" in result.stderr
    assert len(list(server.read("small"))) == 1

"""`goqueue consume`: where it starts, what it shows, when it ends."""

import pytest

from goqueue.cli.commands.consume import Start, Wanted
from goqueue.cli.failures import UsageFailure
from goqueue.client.http.messages import Received
from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import run


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from-latest", "--from-beginning"),
        ("--offset", "4"),
        ("--offset", "first"),
        ("--follow", "--to-time", "now"),
        ("--format", "{nothing}"),
        ("--group", "g", "--offset", "-1"),
        ("--group", "g", "--to-time", "now"),
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: tuple[str, ...]):
    assert "Traceback" not in run("consume", "t", *arguments, code=2).output


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (Start(), "earliest"),
        (Start(from_beginning=True), "earliest"),
        (Start(from_latest=True), "latest"),
        (Start(from_time=5), None),
        (Start(given_offset="latest"), "latest"),
        (Start(given_offset="-3"), -3),
        (Start(given_offset="3", partition=0), 3),
    ],
)
def test_a_start_is_an_offset_a_word_or_left_to_the_time(start: Start, offset: object):
    start.check()
    assert start.offset == offset


def test_an_offset_from_the_front_is_a_partitions_own():
    with pytest.raises(UsageFailure, match="add --partition"):
        _ = Start(given_offset="0").offset


def message(key: bytes | None, *headers: tuple[str, bytes]) -> Received:
    return Received("t", 0, 0, 0, key, b"value", headers)


def test_a_filter_wants_the_key_and_every_header():
    assert Wanted().filter() is None
    wanted = Wanted(key="k", header={"tenant": "a"}).filter()
    assert wanted is not None
    assert wanted(message(b"k", ("tenant", b"a"), ("more", b"")))
    assert not wanted(message(b"k", ("tenant", b"b")))
    assert not wanted(message(b"other", ("tenant", b"a")))
    assert not wanted(message(None, ("tenant", b"a")))


def test_messages_are_shown_up_to_the_limit_and_by_the_filter(server: BrokerInThread):
    server.create_topic("shown")
    server.publish("shown", *("one", "two", "three"))
    run("produce", "shown", "-m", "four", "-k", "key", code=0)
    assert run("consume", "shown", code=0).stdout == "one\ntwo\nthree\nfour\n"
    assert run("consume", "shown", "-n", 1, "--offset", "-2", code=0).stdout == "three\n"
    assert run("consume", "shown", "--key", "key", "-n", 1, code=0).stdout == "four\n"
    form = "{partition}:{offset} {value}\\n"
    assert run("consume", "shown", "--format", form, "-n", 1, code=0).stdout == "0:0 one\n"
    followed = run("consume", "shown", "--follow", "-n", 4, code=0).stdout
    assert followed == "one\ntwo\nthree\nfour\n"


def test_a_missing_topic_ends_with_4(server: BrokerInThread):
    assert not server.broker.has_topic("missing")
    run("consume", "missing", code=4)

"""The writer's options: named as people know them, and refused all at once."""

import pytest

from goqueue.spark.sink.options import SinkOptions, sink_options
from goqueue.spark.source.option_texts import InvalidOptions, refuse
from goqueue.spark.source.options import TIMEOUT_MS

SERVER = {"bootstrap.servers": "127.0.0.1:9092"}


def accepted(given: dict[str, str], *, is_stream: bool = False) -> SinkOptions:
    options, problems = sink_options(SERVER | given, is_stream=is_stream)
    assert problems == []
    return options


def problems_of(given: dict[str, str], *, is_stream: bool = False) -> list[str]:
    return sink_options(given, is_stream=is_stream)[1]


def test_what_is_not_said_has_a_default():
    options = accepted({})
    assert options == SinkOptions(bootstrap="127.0.0.1:9092")
    assert (options.timeout_ms, options.compression) == (TIMEOUT_MS, "none")


def test_everything_can_be_said_and_in_any_case():
    options = accepted(
        {
            "TOPIC": "bills",
            "Compression": "ZSTD",
            "txnappid": "billing",
            "TxnVersion": "7",
            "txnTimeout": "90s",
            "timeout": "30s",
            "batchBytes": "64k",
            "kafka.max.request.size": "9000000",
            "goqueue.http": "queue:8080",
        }
    )
    assert options == SinkOptions(
        bootstrap="127.0.0.1:9092",
        topic="bills",
        http="http://queue:8080",
        compression="zstd",
        application="billing",
        version=7,
        transaction_timeout_ms=90_000,
        timeout_ms=30_000,
        batch_bytes=65_536,
        message_bytes_max=9_000_000,
    )


def test_several_nodes_may_have_the_http_listener():
    options, problems = sink_options(
        {"bootstrap.servers": "a:9092,b:9092", "goqueue.http": "a:8080, https://b:8080,"},
        is_stream=True,
    )
    assert problems == []
    assert options.http == "http://a:8080,https://b:8080"


def test_options_of_kafkas_connector_do_too():
    given = {"kafka.bootstrap.servers": "queue:9092", "kafka.compression.type": "lz4"}
    options, problems = sink_options(given, is_stream=True)
    assert problems == []
    assert (options.bootstrap, options.compression) == ("queue:9092", "lz4")


def test_options_that_are_for_others_are_let_be():
    others = {"queryName": "q", "kafka.linger.ms": "5", "path": "x"}
    assert accepted(others, is_stream=True) == SinkOptions(bootstrap="127.0.0.1:9092")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("90 s", 90_000), ("15m", 900_000), ("24h", 86_400_000)],
)
def test_times_are_written_as_people_write_them(text: str, milliseconds: int):
    assert accepted({"txnTimeout": text}).transaction_timeout_ms == milliseconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "no spaces"}, "topic"),
        ({"compression": "rar"}, "none of none, gzip"),
        ({"txnTimeout": "soon"}, "txnTimeout"),
        ({"txnTimeout": "0"}, "txnTimeout"),
        ({"txnTimeout": "25h"}, "txnTimeout"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion"),
        ({"txnAppId": "a", "txnVersion": str(2**63)}, "txnVersion"),
        ({"txnAppId": "", "txnVersion": "1"}, "txnAppId"),
        ({"txnAppId": "a" * 901, "txnVersion": "1"}, "txnAppId"),
        ({"txnAppId": "a"}, "give both"),
        ({"txnVersion": "1"}, "give both"),
        ({"batchBytes": "65m"}, "batchBytes"),
        ({"batchBytes": "0"}, "batchBytes"),
        ({"txnApId": "a"}, "did you mean txnAppId"),
        ({"bootstrap.server": "x"}, "did you mean bootstrap.servers"),
    ],
)
def test_what_cannot_be_is_refused_and_says_where(given: dict[str, str], said: str):
    (problem,) = problems_of(SERVER | given)
    assert said in problem


@pytest.mark.parametrize("given", [{"txnVersion": "1"}, {"txnAppId": "a"}])
def test_a_streams_name_and_version_are_its_own_affair(given: dict[str, str]):
    (problem,) = problems_of(SERVER | given, is_stream=True)
    assert "micro-batch" in problem


def test_all_problems_are_said_at_once():
    problems = problems_of({"topic": "", "compression": "rar", "txnVersion": "x"})
    assert len(problems) == 5
    with pytest.raises(InvalidOptions, match="cannot write to GoQueue") as refused:
        refuse("write to", problems)
    assert "5 problems" in str(refused.value)
    assert all(problem in str(refused.value) for problem in problems)
    refuse("write to", [])

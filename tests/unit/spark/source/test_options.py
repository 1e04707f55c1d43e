"""Options: Kafka's names, any case, all problems at once."""

from pathlib import Path

import pytest

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.source.option_texts import InvalidOptions
from goqueue.spark.source.options import source_options
from goqueue.spark.source.positions import AtOffsets, AtTime, AtTimes
from goqueue.spark.source.subscriptions import Assigned, Pattern, Topics

GIVEN = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def batch(**given):
    return source_options(GIVEN | given, is_stream=False)


def stream(**given):
    return source_options(GIVEN | given, is_stream=True)


def problems(given, *, is_stream=False):
    with pytest.raises(InvalidOptions) as raised:
        source_options(given, is_stream=is_stream)
    return str(raised.value)


def test_a_job_of_kafkas_connector_needs_no_other_option():
    options = source_options(
        {
            "kafka.bootstrap.servers": "a:9092,b:9092",
            "SUBSCRIBE": "orders, payments",
            "startingoffsets": "earliest",
            "failOnDataLoss": "FALSE",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.group.id": "reporting",
            "kafka.max.poll.records": "500",
            "kafkaConsumer.pollTimeoutMs": "512",
            "fetchOffset.numRetries": "3",
            "groupIdPrefix": "spark",
            "minPartitions": "10",
        },
        is_stream=True,
    )
    assert options.bootstrap == "a:9092,b:9092"
    assert options.subscription == Topics(("orders", "payments"))
    assert options.starting == "earliest"
    assert not options.fail_on_data_loss
    assert not options.read_committed
    assert options.group == "reporting"
    assert options.tasks_min == 10


def test_a_batch_is_all_there_is_and_a_stream_what_comes():
    assert (batch().starting, batch().ending) == ("earliest", "latest")
    assert stream().starting == "latest"


def test_what_to_read_is_said_in_one_way():
    base = {"bootstrap.servers": "b:1"}
    assert source_options(
        base | {"subscribePattern": "or.*"}, is_stream=True
    ).subscription == Pattern("or.*")
    assigned = source_options(base | {"assign": '{"orders": [1, 0]}'}, is_stream=True).subscription
    assert assigned == Assigned(
        (TopicPartition(TopicName("orders"), 1), TopicPartition(TopicName("orders"), 0))
    )
    assert "give one of subscribe" in problems(base)
    assert "not subscribe and assign" in problems(GIVEN | {"assign": '{"orders": [0]}'})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("subscribe", " , "),
        ("subscribe", "or/ders"),
        ("subscribePattern", "or(ders"),
        ("assign", "[0]"),
        ("assign", '{"orders": [-1]}'),
        ("assign", "{}"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(name, text):
    assert f"{name}: " in problems({"bootstrap.servers": "b:1", name: text})


def test_where_to_begin_can_be_said_in_many_ways():
    assert batch(startingOffsets="EARLIEST").starting == "earliest"
    assert batch(startingOffsets='{"orders":{"0":5,"1":-2}}').starting == AtOffsets(
        {TopicPartition(TopicName("orders"), 0): 5, TopicPartition(TopicName("orders"), 1): -2}
    )
    for text in ("1767225600000", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T01:00+01:00"):
        assert batch(startingTimestamp=text).starting == AtTime(1_767_225_600_000)
    assert batch(startingOffsets="2026-01-01T00:00:00Z").starting == AtTime(1_767_225_600_000)
    assert batch(endingOffsetsByTimestamp='{"orders":{"0":7}}').ending == AtTimes(
        {TopicPartition(TopicName("orders"), 0): 7}
    )


def test_a_time_wins_over_times_and_those_over_offsets():
    given = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"orders":{"0":7}}',
        "startingOffsets": "earliest",
    }
    assert batch(**given).starting == AtTime(1000)
    del given["startingTimestamp"]
    assert isinstance(batch(**given).starting, AtTimes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("startingOffsets", "sometime"),
        ("startingOffsets", '{"orders": 5}'),
        ("startingOffsets", '{"orders": {"0": -3}}'),
        ("startingOffsets", '{"orders": {"-1": 0}}'),
        ("startingOffsets", "latest"),
        ("endingOffsets", "earliest"),
        ("endingTimestamp", "tomorrow"),
        ("startingOffsetsByTimestamp", '{"orders": {"0": -1}}'),
        ("startingOffsetsByTimestampStrategy", "guess"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxBytesPerTrigger", "1 hundred"),
        ("fetchBytes", "3g"),
        ("minPartitions", "-1"),
        ("maxTriggerDelay", "soon"),
        ("includeHeaders", "perhaps"),
        ("isolation", "serializable"),
        ("unit", "row"),
    ],
)
def test_each_option_is_checked(name, text):
    assert f"{name}: " in problems(GIVEN | {name: text})


def test_a_stream_has_no_end():
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        assert f"{name}: a stream has no end" in problems(GIVEN | {name: "1"}, is_stream=True)


def test_all_problems_are_told_at_once():
    told = problems({"subscribe": "a/b", "unit": "row", "maxTasks": "0", "minPartitions": "x"})
    assert "5 problems" in told
    for name in ("bootstrap.servers", "subscribe", "unit", "maxTasks", "minPartitions"):
        assert f"- {name}: " in told


def test_options_that_contradict_each_other():
    assert "minPartitions is 9" in problems(GIVEN | {"minPartitions": "9", "maxTasks": "3"})
    assert "minOffsetsPerTrigger is 9" in problems(
        GIVEN | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}
    )
    for unit in ("batch", "range"):
        assert "includeHeaders" in problems(GIVEN | {"unit": unit, "includeHeaders": "true"})


def test_a_slip_of_the_fingers_is_seen_and_a_strangers_option_is_let_be():
    assert "did you mean startingOffsets?" in problems(GIVEN | {"startingOffset": "earliest"})
    assert "did you mean subscribe?" in problems(GIVEN | {"subscibe": "x"})
    assert batch(mergeSchema="true").bootstrap == "broker:9092"


def test_before_it_is_known_whether_it_is_a_stream_nothing_of_that_is_checked():
    options = source_options(GIVEN | {"startingOffsets": "latest", "unit": "batch"}, is_stream=None)
    assert options.unit == "batch"


def test_sizes_and_times_are_written_as_in_spark():
    assert stream(maxBytesPerTrigger="64m").bytes_per_trigger_max == 64 * 1024 * 1024
    assert stream(maxBytesPerTrigger="1 KiB").bytes_per_trigger_max == 1024
    assert stream(maxTriggerDelay="2m").trigger_delay_ms_max == 120_000
    assert stream(timeout="500").timeout_ms == 500


def test_filters_are_taken_where_the_session_says_so(monkeypatch):
    assert not batch().pushdown
    monkeypatch.setenv("GOQUEUE_SPARK_PUSHDOWN", "true")
    assert batch().pushdown
    assert not batch(pushdown="false").pushdown


def test_a_login_is_kafkas_settings_or_a_file_of_them(tmp_path: Path):
    told = {"bootstrap.servers": "b:1", "subscribe": "t"}
    scram = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": 'Module required username="alice" password="hidden";',
        "kafka.ssl.truststore.location": "ca.pem",
    }
    found = source_options(told | scram, is_stream=False)
    assert (found.login.user, found.login.password, found.login.ca_file) == (
        "alice",
        "hidden",
        "ca.pem",
    )
    assert "hidden" not in repr(found)
    file = tmp_path / "client.properties"
    file.write_text("\n".join(f"{name[6:]}={value}" for name, value in scram.items()))
    by_file = source_options(told | {"kafka.login.file": str(file)}, is_stream=False)
    assert by_file.login == found.login
    for wrong in (
        {**scram, "kafka.login.file": str(file)},
        {"kafka.sasl.password": "hidden"},
        {**scram, "kafka.sasl.mechanism": "GSSAPI"},
    ):
        with pytest.raises(InvalidOptions) as refused:
            source_options(told | wrong, is_stream=False)
        assert "hidden" not in str(refused.value)

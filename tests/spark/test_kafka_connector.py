"""Jobs written for Spark's Kafka connector run against our broker as they are.

Skipped, with the reason, where the connector cannot be had from Maven.
"""

import pytest

from bench.kafka_connector import NotToBeHad, connector_jars

pytestmark = pytest.mark.timeout(400)  # the first time, jars are fetched

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module")
def jars():
    try:
        return connector_jars()
    except NotToBeHad as error:
        pytest.skip(f"Spark's Kafka connector is not to be had: {error}")


@pytest.fixture
def kafka(spark, jars):
    """The session, with the connector in it."""
    for jar in jars:
        spark.sql(f"add jar '{jar}'")
    return spark


def options(broker, topic, **more):
    return {"kafka.bootstrap.servers": broker, "subscribe": topic, "includeHeaders": "true"} | more


def rows(frame):
    return sorted(tuple(row) for row in frame.select(*COLUMNS).collect())


def test_a_batch_job_reads_the_same_by_either_name(kafka, broker, fill, topic):
    fill(topic, 0, ["a", "b"], headers=(("trace", b"1"),))
    fill(topic, 1, ["c", "d"], codec=2)
    given = options(
        broker, topic, startingOffsets=f'{{"{topic}": {{"0": 1, "1": -2}}}}', minPartitions="4"
    )
    theirs, ours = (
        rows(kafka.read.format(name).options(**given).load()) for name in ("kafka", "goqueue")
    )
    assert len(ours) == 3
    assert ours == theirs


def test_a_batch_job_writes(kafka, broker, fill, make_topic, client):
    source, target = make_topic(2), make_topic(3)
    fill(source, 0, map(str, range(100)))
    frame = kafka.read.format("kafka").options(**options(broker, source)).load()
    frame.select("key", "value", "headers").write.format("kafka").option(
        "kafka.bootstrap.servers", broker
    ).option("topic", target).save()
    copy = kafka.read.format("goqueue").options(**options(broker, target)).load()
    assert sorted(row.value for row in copy.select("value").collect()) == sorted(
        row.value for row in frame.select("value").collect()
    )


def run_stream(spark, name, broker, source, target, checkpoint):
    query = (
        spark.readStream.format(name)
        .options(**options(broker, source, startingOffsets="earliest"))
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_moves_over_with_its_checkpoint(kafka, broker, fill, make_topic, tmp_path):
    """Read and written by theirs; then by ours, from the offsets that theirs had noted."""
    source, target = make_topic(2), make_topic(2)
    checkpoint = str(tmp_path / "checkpoint")
    fill(source, 0, ["a", "b"])
    run_stream(kafka, "kafka", broker, source, target, checkpoint)
    fill(source, 1, ["c"])
    run_stream(kafka, "goqueue", broker, source, target, checkpoint)
    fill(source, 0, ["d"])
    run_stream(kafka, "kafka", broker, source, target, checkpoint)
    copy = kafka.read.format("goqueue").options(**options(broker, target)).load()
    assert sorted(bytes(row.value) for row in copy.collect()) == [b"a", b"b", b"c", b"d"]

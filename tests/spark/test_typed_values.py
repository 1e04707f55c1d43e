"""Values by schemas of the registry: as columns of the source, of SQL, pipelines and archives, and
written by the sink; read and written by Confluent's own serializers on the other side."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from goqueue.client import Client
from goqueue.client.kafka import LATEST, KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.spark.archive.job import archive
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.archive.tables import open_archive
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan
from goqueue.spark.sql.job import query
from tests.conformance.server import Server
from tests.spark.conftest import START_MS, MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "store", "type": "string"}],
}
SECOND = {
    **FIRST,
    "fields": [
        *FIRST["fields"],
        {"name": "amount", "type": "double", "default": 1.5},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
Write = Callable[..., None]


@pytest.fixture
def registry(server: Server) -> Iterator[Client]:
    with Client(f"http://{server.http_address}") as client:
        yield client


@pytest.fixture
def confluent(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})


@pytest.fixture
def write(client: KafkaClient) -> Write:
    """`write(topic, values)`: in their order into partition 0, with headers where given."""

    def write(topic: str, *values: bytes | None, headers: dict[int, bytes] | None = None) -> None:
        records = [
            Record(
                offset=index,
                timestamp=START_MS + index,
                key=str(index).encode(),
                value=value,
                headers=(("schema-id", headers[index]),) if headers and index in headers else (),
            )
            for index, value in enumerate(values)
        ]
        client.produce({TopicPartition(TopicName(topic), 0): [encode(records)]})

    return write


def avro(confluent: SchemaRegistryClient, topic: str, schema: Any, row: Any) -> bytes:
    context = SerializationContext(topic, MessageField.VALUE)
    made: bytes = AvroSerializer(confluent, json.dumps(schema))(row, context)
    return made


def frame(spark: "SparkSession", broker: str, topic: str, **options: str) -> Any:
    given = {"bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
    reader = spark.read.format("goqueue").options(**given, **{"value.format": "registry"})
    return reader.options(**options).load()


def orders(confluent: SchemaRegistryClient, topic: str) -> list[bytes | None]:
    """Of both schemas, one that is none, and a null."""
    return [
        avro(confluent, topic, FIRST, {"id": 1, "store": "a"}),
        avro(confluent, topic, SECOND, {"id": 2, "store": "b", "amount": 7.25, "tags": ["x"]}),
        b"junk",
        None,
    ]


def test_values_of_several_schemas_are_columns_of_the_latest(
    spark: "SparkSession",
    broker: str,
    topic: str,
    confluent: SchemaRegistryClient,
    registry: Client,
    write: Write,
):
    first, second, junk, nothing = orders(confluent, topic)
    assert first is not None
    assert second is not None
    first_id = str(int.from_bytes(first[1:5], "big")).encode()
    write(topic, first, second, junk, nothing, first[5:], second[5:], headers={4: first_id})
    rows = frame(spark, broker, topic, mode="PERMISSIVE").orderBy("offset").collect()
    read_rows = [row["value"] and tuple(row["value"]) for row in rows]
    assert read_rows == [
        (1, "a", 1.5, []),
        (2, "b", 7.25, ["x"]),
        None,
        None,
        (1, "a", 1.5, []),
        (2, "b", 7.25, ["x"]),
    ]
    corrupt = [row["_corrupt_record"] and bytes(row["_corrupt_record"]) for row in rows]
    assert corrupt == [None, None, b"junk", None, None, None]
    pinned = frame(spark, broker, topic, mode="DROPMALFORMED", **{"value.schema.version": "1"})
    found = pinned.selectExpr("offset", "value.*").orderBy("offset").collect()
    assert [tuple(row) for row in found] == [
        (0, 1, "a"),
        (1, 2, "b"),
        (3, None, None),
        (4, 1, "a"),
        (5, 2, "b"),
    ]
    with pytest.raises(Exception, match=f"{topic}-0 offset 2: the value is not what its schema"):
        frame(spark, broker, topic).collect()
    with pytest.raises(Exception, match=r"value\.format is json, and version 2"):
        frame(spark, broker, topic, **{"value.format": "json"})


def test_json_and_protobuf_are_columns_too(
    spark: "SparkSession",
    broker: str,
    make_topic: MakeTopic,
    confluent: SchemaRegistryClient,
    registry: Client,
    write: Write,
):
    people, moves = make_topic(), make_topic()
    serialize = JSONSerializer(json.dumps(PERSON), confluent)
    context = SerializationContext(people, MessageField.VALUE)
    write(people, serialize({"name": "Ada", "age": 36}, context), b'{"name": "Bo"}', b'{"name": 5}')
    rows = frame(spark, broker, people, mode="PERMISSIVE").orderBy("offset").collect()
    assert [row["value"] and tuple(row["value"]) for row in rows] == [
        ("Ada", 36),
        ("Bo", None),
        None,
    ]
    proto = 'syntax = "proto3"; message Move { int64 id = 1; repeated string path = 2; }'
    made = registry.register_schema(f"{moves}-value", proto, "PROTOBUF")
    payload = b"\x08\x07\x12\x01a\x12\x01b"
    write(moves, b"\0" + made.id.to_bytes(4, "big") + b"\0" + payload, payload)
    rows = frame(spark, broker, moves).select("value.*").collect()
    assert [tuple(row) for row in rows] == [(7, ["a", "b"])] * 2


def test_sql_has_the_columns_of_the_registry(
    spark: "SparkSession",
    broker: str,
    client: KafkaClient,
    topic: str,
    confluent: SchemaRegistryClient,
    write: Write,
):
    write(topic, *orders(confluent, topic))
    text = f"select id, amount, _offset, _corrupt is null as fits from `{topic}` order by _offset"
    assert [tuple(row) for row in query(spark, client, broker, text).collect()] == [
        (1, 1.5, 0, True),
        (2, 7.25, 1, True),
        (None, None, 2, False),
        (None, None, 3, True),
    ]
    raw = query(spark, client, broker, f"select value from `{topic}`", schemas={topic: "none"})
    assert raw.columns == ["value"]


def values_of(client: KafkaClient, broker: str, topic: str) -> list[bytes]:
    places = client.metadata([topic])[topic].partitions
    latest = client.list_offsets(dict.fromkeys(places, LATEST))
    task = tuple(OffsetRange(*where, 0, latest[where].offset) for where in places)
    batches = read(ReadPlan(bootstrap=broker, columns=("value",)), task)
    return [value.as_py() for batch in batches for value in batch.column(0)]


def test_the_sink_writes_what_a_topic_with_full_validation_takes(
    spark: "SparkSession",
    broker: str,
    client: KafkaClient,
    registry: Client,
    confluent: SchemaRegistryClient,
    names: Iterator[str],
):
    topic = next(names)
    client.create_topic(
        topic, partitions=1, settings={"goqueue.schema.validation": "full", "retention.ms": "-1"}
    )
    rows = spark.sql(
        "select id, concat('s', id) as store, id * 1.5d as amount from range(3)"
    ).selectExpr("struct(*) as value", "cast(id as string) as key")
    options = {"bootstrap.servers": broker, "topic": topic, "value.format": "avro"}
    for more in ({"value.schema": json.dumps(SECOND)}, {}):  # registers it; then uses the latest
        writer = rows.write.format("goqueue").options(**options, **more)
        writer.mode("append").save()
    deserialize = AvroDeserializer(confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    found = [deserialize(value, context) for value in values_of(client, broker, topic)]
    wanted: list[dict[str, Any]] = [
        {"id": n, "store": f"s{n}", "amount": n * 1.5, "tags": []} for n in range(3)
    ]
    assert sorted(found, key=lambda row: row["id"]) == sorted(
        wanted + wanted, key=lambda row: row["id"]
    )
    with pytest.raises(Exception, match="no field extra in its schema"):
        rows.selectExpr("struct(value.*, 1 as extra) as value").write.format("goqueue").options(
            **options
        ).mode("append").save()
    with pytest.raises(Exception, match="is not what schema"):
        spark.sql("select '{}' as value").write.format("goqueue").options(
            **{"bootstrap.servers": broker, "topic": topic}
        ).mode("append").save()
    assert len(values_of(client, broker, topic)) == 6


PIPELINE = """
name: typed
sources:
  orders: {{topic: {topic}, format: registry, bad: {{topic: {bad}, partitions: 1}}}}
steps:
  large: select id, store, amount * 2 as amount from orders where amount > 2
sinks:
  large: {{from: large, topic: {large}, format: registry, key: store, partitions: 1}}
  kept: {{from: orders, archive: lake, format: delta, decode: true}}
"""


def test_a_declared_pipeline_reads_writes_and_archives_by_the_registry(
    spark: "SparkSession",
    broker: str,
    client: KafkaClient,
    topic: str,
    confluent: SchemaRegistryClient,
    write: Write,
    tmp_path: Path,
):
    write(topic, *orders(confluent, topic))
    large, bad = f"{topic}.large", f"{topic}.bad"
    text = PIPELINE.format(topic=topic, large=large, bad=bad)
    pipeline = read_pipeline(text, variables={})
    places = Places(broker, tmp_path, pipeline.checkpoints, pipeline.name)
    for each in PipelineJob(spark, pipeline, places).start(show=print, once=True):
        each.awaitTermination()
    deserialize = AvroDeserializer(confluent)
    context = SerializationContext(large, MessageField.VALUE)
    found = [deserialize(value, context) for value in values_of(client, broker, large)]
    assert found == [{"id": 2, "store": "b", "amount": 14.5}]
    assert values_of(client, broker, bad) == [b"junk"]
    kept = _table(tmp_path / "lake" / topic)
    assert kept["id"].to_pylist() == [1, 2, None]
    assert kept["tags"].to_pylist() == [[], ["x"], None]
    rejected = _table(tmp_path / "lake" / f"{topic}_dlq")
    assert rejected["value"].to_pylist() == [b"junk"]


def test_an_archive_gets_the_columns_of_a_schema_that_came_later(
    spark: "SparkSession",
    broker: str,
    topic: str,
    confluent: SchemaRegistryClient,
    write: Write,
    tmp_path: Path,
):
    options = ArchiveOptions(
        bootstrap=broker,
        topics=(topic,),
        target=str(tmp_path / "lake"),
        format="delta",
        decode="registry",
        trigger="500 milliseconds",
    )
    write(topic, avro(confluent, topic, FIRST, {"id": 1, "store": "a"}))
    running = archive(spark, options)
    running.processAllAvailable()
    assert "amount" not in _table(tmp_path / "lake" / topic).column_names
    write(topic, avro(confluent, topic, SECOND, {"id": 2, "store": "b", "amount": 2.5, "tags": []}))
    running.processAllAvailable()
    running.stop()
    kept = _table(tmp_path / "lake" / topic).sort_by("id")
    assert kept["amount"].to_pylist() == [None, 2.5]
    assert kept["record_value"].to_pylist()[0] is not None


GUIDE = Path(__file__).parents[2] / "docs/guides/spark.md"
EARLIEST = '"startingOffsets", "earliest"'


def test_the_examples_of_the_guide_run(
    spark: "SparkSession",
    broker: str,
    make_topic: MakeTopic,
    confluent: SchemaRegistryClient,
    client: KafkaClient,
    write: Write,
    tmp_path: Path,
):
    """Reading by a schema, then writing what was read by one that is made of its columns."""
    source, target = make_topic(), make_topic()
    write(source, avro(confluent, source, FIRST, {"id": 1, "store": "a"}))
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    reading, writing = (each for each in blocks if '"value.format"' in each)
    given: dict[str, Any] = {"spark": spark}
    for text in (reading, writing):
        for name, value in {
            "127.0.0.1:9092": broker,
            '"subscribe", "orders")': f'"subscribe", "{source}").option({EARLIEST})',
            '"bills"': f'"{target}"',
            "checkpoints/bills": str(tmp_path / "bills"),
            "(\n    rows": "query = (\n    rows",
        }.items():
            text = text.replace(name, value)
        exec(text, given)
        if "rows" not in given:
            assert given["orders"].columns == ["key", "id", "store", "timestamp"]
            given["rows"] = given["orders"].selectExpr("cast(id as string) as order_id", "store")
    given["query"].processAllAvailable()
    given["query"].stop()
    deserialize = AvroDeserializer(confluent)
    context = SerializationContext(target, MessageField.VALUE)
    found = [deserialize(value, context) for value in values_of(client, broker, target)]
    assert found == [{"order_id": "1", "store": "a"}]


def _table(folder: Path) -> Any:
    from deltalake import DeltaTable

    assert open_archive(folder).format == "delta"
    return DeltaTable(folder).to_pyarrow_table()

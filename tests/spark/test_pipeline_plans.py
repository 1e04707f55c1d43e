"""What Spark makes of a pipeline's file, before anything is read or written."""

from pathlib import Path

import pytest

from goqueue.spark.pipelines.describing import describe
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.planning import plan
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.pipelines.topics import missing_topics
from goqueue.spark.pipelines.tree import PipelineProblems

ORDERS = "id bigint, store string, amount decimal(10, 2), at timestamp"
GOOD = f"""
name: orders
sources:
  orders:
    topic: orders
    schema: {ORDERS}
    watermark: {{column: at, delay: 1 minute}}
  lines: {{topic: lines}}
  raw: {{topic: raw, format: binary}}
steps:
  per_minute: |
    select window.start as minute, store, count(*) as orders
    from orders group by window(at, '1 minute'), store
  large: select id, struct(id, store) as which, at from orders where amount > 100
sinks:
  totals:
    topic: totals
    from: per_minute
    key: store
  changes: {{topic: changes, from: per_minute, mode: update}}
  large:
    topic: large
    from: large
    key: id
    value: which
    timestamp: at
    partition: id % 3
    headers: {{kind: "'large'", id: id}}
  lines: {{topic: copy, from: lines, key: _key, value: value}}
  shown: {{console: 5, from: large}}
  files: {{files: out, from: large}}
"""
BAD = f"""
name: bad
sources:
  orders: {{topic: orders, schema: "{ORDERS}"}}
  typo: {{topic: b, schema: "id bigin"}}
  single: {{topic: b, schema: "int"}}
  taken: {{topic: b, schema: "_key int"}}
  late: {{topic: b, schema: "x int", watermark: {{column: nope, delay: 5s}}}}
  table: {{topic: b, read: once}}
steps:
  early: select * from afterwards
  afterwards: select * from orders
  wrong: select nope from orders
  on_wrong: select * from wrong
  unknown: select * from nosuch
  syntax: selec
  command: create view x as select 1
  counts: select store, count(*) as n from orders group by store
  still: select * from table
sinks:
  unfinished: {{topic: o, from: counts}}
  expressions: {{topic: o, from: counts, mode: update, key: nope, headers: {{h: missing}}}}
  still: {{topic: o, from: still}}
  on_wrong: {{topic: o, from: on_wrong}}
"""


@pytest.fixture
def places(tmp_path: Path, broker: str) -> Places:
    return Places(broker, tmp_path, "checkpoints", "orders")


def columns(frame) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in frame.schema}


def test_views_and_outputs_have_their_columns(spark, places):
    planned = plan(spark, read_pipeline(GOOD, {}), places)
    own = {
        "_topic": "string",
        "_partition": "int",
        "_offset": "bigint",
        "_timestamp": "timestamp",
    }
    assert columns(planned.views["orders"]) == {
        "id": "bigint",
        "store": "string",
        "amount": "decimal(10,2)",
        "at": "timestamp",
        "_key": "string",
        **own,
        "_value": "string",
    }
    assert columns(planned.views["lines"]) == {"value": "string", "_key": "string", **own}
    assert columns(planned.views["raw"]) == {"value": "binary", "_key": "binary", **own}
    outputs = {each.name: columns(each.output) for each in planned.sinks}
    assert outputs["totals"] == {"value": "string", "key": "string"}
    assert outputs["large"] == {
        "value": "string",
        "key": "string",
        "partition": "int",
        "timestamp": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
    }
    assert list(outputs["shown"]) == ["id", "which", "at"]


def test_all_that_spark_objects_to_is_told_at_once(spark, places):
    with pytest.raises(PipelineProblems) as caught:
        plan(spark, read_pipeline(BAD, {}), places)
    told = {each.path: each.text for each in caught.value.problems}
    assert {path: text.split("\n")[0][:60] for path, text in told.items()} == {
        "sources.typo.schema": 'Unsupported data type "BIGIN". (line 1, pos 3)',
        "sources.single.schema": "'int' is one type: write names and types, as `id bigint`",
        "sources.taken.schema": "_key: these names are the message's own",
        "sources.late": "A column, variable, or function parameter with name `nope` c",
        "steps.early": "'afterwards' stands below it, and a step sees those above",
        "steps.wrong": "A column, variable, or function parameter with name `nope` c",
        "steps.unknown": "The table or view `nosuch` cannot be found (line 1, pos 14)",
        "steps.syntax": "Syntax error at or near 'selec'. (line 1, pos 0)",
        "steps.command": "a step is a query, and this is a command",
        "sinks.unfinished": "Invalid streaming output mode: append. This output mode is n",
        "sinks.expressions.key": "A column, variable, or function parameter with name `nope` c",
        "sinks.expressions.headers.h": (
            "A column, variable, or function parameter with name `missing"[:60]
        ),
        "sinks.still.from": "'still' has no stream in it, only tables",
        "sinks.expressions": told["sinks.expressions"].split("\n")[0][:60],
    }


def test_a_plan_does_not_see_the_views_of_another(spark, places):
    plan(spark, read_pipeline(GOOD, {}), places)
    text = "{name: x, sources: {l: {topic: l}}, steps: {s: select * from per_minute}, "
    with pytest.raises(PipelineProblems, match=r"steps\.s: The table or view `per_minute`"):
        plan(spark, read_pipeline(text + "sinks: {o: {topic: o, from: s}}}", {}), places)


def test_a_description_says_who_reads_what(spark, places, tmp_path):
    commits = tmp_path / "checkpoints" / "orders" / "totals" / "commits"
    commits.mkdir(parents=True)
    for each in ("0", "1", ".1.crc"):
        (commits / each).touch()
    pipeline = read_pipeline(GOOD, {})
    found = describe(spark, pipeline, plan(spark, pipeline, places), places)
    assert [each.name for each in found.sources] == ["orders", "lines", "raw"]
    assert {each.name: each.reads for each in found.steps} == {
        "per_minute": ["orders"],
        "large": ["orders"],
    }
    totals, changes = found.sinks[:2]
    assert (totals.what, totals.reads, totals.batches_done) == ("topic totals", "per_minute", 2)
    assert (changes.mode, changes.batches_done) == ("update", None)
    assert "Aggregate" in totals.plan


def test_topics_that_are_not_there_are_told(client, make_topic, names):
    there = make_topic(1)
    text = f"""
    name: x
    sources:
      a: {{topics: [{there}, nosuch-a]}}
      b: {{topic: {there}, schema: x int, bad: {{topic: nosuch-bad}}}}
    sinks:
      c: {{topic: nosuch-c, from: a}}
      d: {{topic: made, from: a, partitions: 2}}
    """
    problems = missing_topics(client, read_pipeline(text, {}))
    assert [(each.path, each.text.split(";")[0][:32]) for each in problems] == [
        ("sources.a", "there is no topic 'nosuch-a'"),
        ("sinks.c.topic", "there is no topic 'nosuch-c'"),
        ("sources.b.bad.topic", "there is no topic 'nosuch-bad'"),
    ]

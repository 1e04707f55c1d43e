"""A pipeline's file: what it may say, and everything that is wrong with it at once."""

import pytest

from goqueue.spark.pipelines.model import (
    ArchiveSink,
    BadTopic,
    ConsoleSink,
    FileSink,
    FileSource,
    Pipeline,
    Step,
    TopicSink,
    TopicSource,
    Watermark,
)
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.pipelines.tree import PipelineProblems

WHOLE = """\
name: orders
bootstrap: ${BROKER}
trigger: 5s
checkpoints: ${FOLDER:-checkpoints}
settings:
  spark.sql.shuffle.partitions: 4
sources:
  orders:
    topic: orders
    schema: id bigint, store string, at timestamp
    from: 2026-01-31T12:00:00Z
    watermark: {column: at, delay: 1 minute}
    bad: {topic: orders.bad}
    max_messages: 1000
  lines:
    topics: [a, b]
  stores:
    files: stores.csv
    format: csv
    options: {header: true}
steps:
  per_minute: select store, count(*) as n from orders group by store
  big:
    sql: select * from per_minute where n > 10
    description: what matters
sinks:
  totals:
    topic: totals
    from: per_minute
    key: store
    mode: update
    headers: {kind: "'total'"}
    partitions: 3
  kept: {archive: lake, from: lines, format: delta, decode: true}
  files: {files: out, from: big, partition_by: [store]}
  screen: {console: 20, from: big}
"""
SMALL = {
    "name": "small",
    "sources": "{lines: {topic: lines}}",
    "sinks": "{out: {topic: out, from: lines}}",
}


def read(text: str, **variables: str) -> Pipeline:
    return read_pipeline(text, variables)


def problems(text: str, **variables: str) -> list[str]:
    """`line: path: text` for each."""
    with pytest.raises(PipelineProblems) as caught:
        read(text, **variables)
    return [f"{each.line}: {each}" for each in caught.value.problems]


def small(**changes: str) -> str:
    """The smallest pipeline, with other values for some of its keys; each is a line."""
    return "".join(f"{name}: {value}\n" for name, value in {**SMALL, **changes}.items())


def test_a_whole_file():
    made = read(WHOLE, BROKER="127.0.0.1:9092")
    assert made == Pipeline(
        name="orders",
        bootstrap="127.0.0.1:9092",
        trigger="5s",
        checkpoints="checkpoints",
        settings={"spark.sql.shuffle.partitions": 4},
        sources={
            "orders": TopicSource(
                topic="orders",
                schema="id bigint, store string, at timestamp",
                from_="2026-01-31T12:00:00Z",
                watermark=Watermark("at", "1 minute"),
                bad=BadTopic("orders.bad"),
                max_messages=1000,
            ),
            "lines": TopicSource(topics=["a", "b"]),
            "stores": FileSource("stores.csv", "csv", options={"header": True}),
        },
        steps={
            "per_minute": Step("select store, count(*) as n from orders group by store"),
            "big": Step("select * from per_minute where n > 10", description="what matters"),
        },
        sinks={
            "totals": TopicSink(
                "totals",
                "per_minute",
                "update",
                key="store",
                headers={"kind": "'total'"},
                partitions=3,
            ),
            "kept": ArchiveSink("lake", "lines", "delta", decode=True),
            "files": FileSink("out", "big", partition_by=["store"]),
            "screen": ConsoleSink(20, "big"),
        },
    )


def test_steps_keep_their_order():
    """A step sees the ones above it, so their order says something."""
    steps = "{z: select 1, b: select 2, a: select 3}"
    assert list(read(small(steps=steps)).steps) == ["z", "b", "a"]


def test_all_problems_are_told_at_once_with_their_lines():
    text = """\
name: a b
bootstrap: nowhere
triger: 5s
sources:
  orders:
    topic: or/ders
    format: json
    from: yesterday
    watermark: {column: at, dely: 1 minute}
    max_messages: many
  3x: hello
steps:
  Orders: select 1
  b: {}
sinks:
  totals:
    from: order
    topic: totals
    mode: updat
    partitions: 0
    key: ${NOPE}
"""
    lines = [each.rsplit(":", 1)[0].split(": ")[:2] for each in problems(text)]
    assert [(int(line), path) for line, path in lines] == [
        (1, "name"),
        (2, "bootstrap"),
        (3, "triger"),
        (5, "sources.orders.schema"),
        (6, "sources.orders.topic"),
        (8, "sources.orders.from"),
        (9, "sources.orders.watermark.delay"),
        (9, "sources.orders.watermark.dely"),
        (10, "sources.orders.max_messages"),
        (11, "sources.3x"),
        (11, "sources.3x"),
        (13, "steps.Orders"),
        (14, "steps.b.sql"),
        (17, "sinks.totals.from"),
        (19, "sinks.totals.mode"),
        (20, "sinks.totals.partitions"),
        (21, "sinks.totals.key"),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sources": "{}"}, "2: sources: at least one is needed"),
        ({"sinks": ""}, "3: sinks: at least one is needed"),
        ({"name": ""}, "1: name: is missing"),
        ({"trigger": "now"}, "4: trigger: 'now' is not a duration"),
        ({"settings": "{driver: 1}"}, "4: settings.driver: Spark's settings begin with `spark.`"),
        ({"steps": "[1]"}, "4: steps: must be a mapping, a name for each"),
        ({"steps": "{s: ' '}"}, "4: steps.s: has no SQL"),
        ({"steps": "{LINES: select 1}"}, "4: steps.LINES: sources.lines has this name already"),
        (
            {"sinks": "{out: {topic: out, from: lines, mode: updat}}"},
            "3: sinks.out.mode: must be append, update or complete, not 'updat'",
        ),
        (
            {"sinks": "{out: {topic: out, files: out, from: lines}}"},
            "3: sinks.out: needs exactly one of `topic`, `archive`, `table`, `files`, `console`;"
            " there is `topic` and `files`",
        ),
        (
            {"sinks": "{out: {console: 5, from: lines, key: x}}"},
            "3: sinks.out.key: is not known here",
        ),
        (
            {"sinks": "{out: {console: 0, from: lines}}"},
            "3: sinks.out.console: how many rows: 1 to 10000",
        ),
        (
            {"sinks": "{a: {files: x, from: lines}, b: {archive: x/, from: lines}}"},
            "3: sinks.b: writes to x/, and so does sinks.a",
        ),
        (
            {
                "steps": "{s: select 1}",
                "sinks": "{a: {archive: x, from: s}}",
            },
            "3: sinks.a.from: an archive keeps the messages of a source, and this is a step",
        ),
        (
            {
                "sources": "{lines: {topic: lines, from: 2026-01-31T12:00:00Z}}",
                "sinks": "{a: {archive: x, from: lines}}",
            },
            "3: sinks.a.from: an archive begins at earliest or latest",
        ),
        (
            {"sources": "{lines: {topic: lines, read: once}}"},
            "3: sinks.out.from: 'lines' is a table, and a sink needs a stream",
        ),
        (
            {"sources": "{lines: {topics: []}}"},
            "2: sources.lines.topics: names none",
        ),
        (
            {"sources": "{lines: {pattern: '('}}"},
            "2: sources.lines.pattern: not a regular expression",
        ),
        (
            {"sources": "{lines: {topic: lines, from: 2026-01-31 12:00}}"},
            "2: sources.lines.from: '2026-01-31 12:00' is not a time: write RFC 3339 with",
        ),
        (
            {"steps": "{s: {sql: select 1, expect: {a: ' '}}}"},
            "4: steps.s.expect.a: has no SQL",
        ),
        (
            {"steps": "{s: {sql: select 1, expect: {a-b: x}}}"},
            "4: steps.s.expect.a-b: a name must match",
        ),
        (
            {"steps": "{s: {sql: select 1, expect: {a: {sql: x, otherwise: skip}}}}"},
            "4: steps.s.expect.a.otherwise: must be fail, drop, keep or {topic: …, partitions: …},"
            " not 'skip'",
        ),
        (
            {"steps": "{s: {sql: select 1, expect: {a: {sql: x, else: drop}}}}"},
            "4: steps.s.expect.a.else: is not known here",
        ),
        (
            {"steps": "{s: {sql: select 1, expect: {a: {sql: x, otherwise: {topic: /}}}}}"},
            "4: steps.s.expect.a.otherwise.topic: ",
        ),
        (
            {
                "sources": "{lines: {topic: l, read: once,"
                " expect: {a: {sql: x, otherwise: {topic: t}}}}}"
            },
            "2: sources.lines.expect: belongs to a stream, and this is read once",
        ),
        (
            {"sources": "{lines: {topic: lines, bad: drop}}"},
            "2: sources.lines.bad: only values with a schema can be bad",
        ),
        (
            {"sources": "{lines: {topic: lines, subject: s}}"},
            "2: sources.lines.subject: belongs to `format: registry`",
        ),
        (
            {"sources": "{lines: {topics: [a, b], format: registry}}"},
            "2: sources.lines.subject: is missing: several topics",
        ),
        (
            {"sources": "{lines: {topic: lines, format: registry, schema: a int}}"},
            "2: sources.lines.schema: belongs to JSON; the format is registry",
        ),
        (
            {"sinks": "{out: {topic: out, from: lines, subject: s}}"},
            "3: sinks.out.subject: belongs to `format: registry`",
        ),
        (
            {"sinks": "{out: {table: t, from: lines}}"},
            "3: sinks.out.keys: is missing",
        ),
        (
            {"sinks": "{out: {table: t, from: lines, keys: []}}"},
            "3: sinks.out.keys: names none",
        ),
        (
            {"sinks": "{out: {table: t, from: lines, keys: [id], cdc: debezium, delete: x}}"},
            "3: sinks.out.delete: envelopes say themselves",
        ),
        (
            {"sinks": "{out: {table: t, from: lines, keys: [id], catalog: c}}"},
            "3: sinks.out.catalog: belongs to Iceberg",
        ),
        (
            {"sources": "{lines: {topic: lines, bad: {topics: x}, schema: a int}}"},
            "2: sources.lines.bad.topic: is missing",
        ),
        (
            {"sources": "{lines: {topic: lines, format: text, schema: a int}}"},
            "2: sources.lines.schema: belongs to JSON; the format is text",
        ),
        (
            {"sources": "{lines: {topic: lines, max_messages: 5, max_bytes: 5}}"},
            "2: sources.lines.max_bytes: give this or `max_messages`",
        ),
        (
            {"sources": "{lines: {topic: lines, read: once, max_bytes: 5}}", "sinks": "{}"},
            "2: sources.lines.max_bytes: belongs to a stream, and this is read once",
        ),
        (
            {"sources": "{lines: {topics: [a, 5]}}"},
            "2: sources.lines.topics.1: must be text, not 5",
        ),
        (
            {"sources": "{lines: {topics: a}}"},
            "2: sources.lines.topics: must be a list, not 'a'",
        ),
        (
            {"sinks": "{out: {topic: out, from: lines, headers: {a: [1]}}}"},
            "3: sinks.out.headers.a: must be text, not a list",
        ),
    ],
)
def test_a_problem_says_what_to_do(changes: dict[str, str], problem: str):
    assert any(each.startswith(problem) for each in problems(small(**changes))), problems(
        small(**changes)
    )


@pytest.mark.parametrize("text", ["", "- a list", "just text", "5"])
def test_what_is_no_mapping_is_no_pipeline(text: str):
    (only,) = problems(text)
    assert "a pipeline is a mapping" in only


def test_a_key_twice_is_a_mistake():
    """YAML would take the second one, and nobody would know."""
    text = small() + "name: other\n"
    assert problems(text) == ["4: name: is there twice"]


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\tname: x", "a: *nobody", "%"])
def test_what_is_not_yaml_says_where(text: str):
    (only,) = problems(text)
    assert "not YAML" in only
    assert only.startswith("1:")


def test_a_small_file_cannot_become_a_large_tree():
    lines = ["a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    for before, name in zip("abcdefg", "bcdefgh", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    (only,) = problems("\n".join(lines))
    assert "more than 10000 values" in only


def test_variables():
    text = small(bootstrap="${HOST}:${PORT:-9092}")
    assert read(text, HOST="broker").bootstrap == "broker:9092"
    assert read(text, HOST="broker", PORT="1").bootstrap == "broker:1"
    assert problems(text) == [
        "4: bootstrap: the variable HOST is not set",
        "4: bootstrap: ':9092' is not HOST:PORT",
    ]

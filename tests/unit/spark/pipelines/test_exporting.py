"""A pipeline as a project of Spark Declarative Pipelines: the text of it."""

import ast
import json
from pathlib import Path

import msgspec
import pytest

from goqueue.spark.pipelines.exporting import Exported, export
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline

PIPELINE = """
name: orders
settings: {spark.sql.shuffle.partitions: 4}
sources:
  orders:
    topic: orders
    schema: id bigint, at timestamp
    watermark: {column: at, delay: 1 minute}
    bad: drop
  lines: {topics: [a, b], from: latest}
  names: {files: names.csv, format: csv, options: {header: true}}
steps:
  joined: |
    select o.id, n.name, orders.at
    from orders o join names n on o.id = n.id
  again: {sql: select * from joined, watermark: {column: at, delay: 5s}}
  table_only: select * from names
sinks:
  big-ones: {topic: big, from: again, key: id, headers: {k: "'v'"}, partition: id % 2}
  copied: {topic: copy, from: orders}
  kept: {files: out, from: again, partition_by: [name]}
  totals: {topic: totals, from: again, mode: update}
  archive: {archive: lake, from: orders}
  shown: {console: 5, from: again}
"""


def project(text: str = PIPELINE) -> Exported:
    pipeline = read_pipeline(text, {})
    places = Places("broker:9092", Path("/files"), pipeline.checkpoints, pipeline.name)
    return export(pipeline, places, Path("/project"))


def functions(code: str) -> dict[str, str]:
    tree = ast.parse(code)
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    return {each.name: ast.unparse(each) for each in found}


def test_sources_steps_and_sinks_become_views_and_flows():
    code = project().files["transformations/pipeline.py"]
    found = functions(code)
    assert list(found) == [
        "orders",
        "lines",
        "names",
        "joined",
        "again",
        "table_only",
        "big_ones_flow",
        "copied_flow",
        "kept_sink",
    ]
    assert "'subscribe', 'a,b'" in found["lines"]
    assert ".withWatermark('at', '60000 milliseconds')" in found["orders"]
    assert ".load('/files/names.csv')" in found["names"]
    assert (
        "dp.table(name='kept_sink', format='parquet', partition_cols=['name'])"
        in (found["kept_sink"])
    )
    assert 'dp.create_sink("big_ones_sink", "goqueue"' in code


def test_streams_are_read_as_streams_and_tables_as_tables():
    found = functions(project().files["transformations/pipeline.py"])
    assert "from STREAM(orders) o join names n" in found["joined"]
    assert "orders.at" in found["joined"]
    assert "from STREAM(joined)" in found["again"]
    assert "from names" in found["table_only"]


@pytest.mark.parametrize(
    "sql",
    [
        """select 'it''s' as a, "b" from names""",
        r"select * from names where name rlike '\\bgold\\b' or name = '\n'",
        "select 1,\n\n       'a\tb'\nfrom names -- the end",
        'select """three""" from names',
        'select 1 from names""") or __import__("os").abort() or spark.sql("""',
        "select '{0} {name} %s \u2028 ü \\' from names\\",
    ],
    ids=["quotes", "backslashes", "lines", "triple-quotes", "code", "odd-characters"],
)
def test_the_sql_of_a_step_stays_as_it_was(sql: str):
    pipeline = {
        "name": "p",
        "sources": {"names": {"topic": "names", "read": "once"}},
        "steps": {"step": sql},
        "sinks": {"out": {"files": "out", "from": "step"}},
    }
    code = project(json.dumps(pipeline)).files["transformations/pipeline.py"]
    assert queries(code) == [sql]


def queries(code: str) -> list[str]:
    """What the code hands to `spark.sql`, as Python reads it."""
    calls = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Call)]
    return [
        ast.literal_eval(each.args[0]) for each in calls if ast.unparse(each.func) == "spark.sql"
    ]


def test_the_value_of_a_source_is_its_fields():
    found = functions(project().files["transformations/pipeline.py"])
    own = "_key, _topic, _partition, _offset, _timestamp, _value"
    assert f"to_json(struct(* except ({own})))" in found["copied_flow"]
    assert "to_json(struct(*))" in found["big_ones_flow"]


def test_expectations_become_filters():
    text = PIPELINE.replace(
        "  table_only:",
        """  sound:
    sql: select * from joined
    expect: {whole: id > 0, named: {sql: name > '', otherwise: drop}, k: {sql: x, otherwise: keep}}
  table_only:""",
    )
    found = functions(project(text).files["transformations/pipeline.py"])["sound"]
    holds = "case when coalesce(cast((id > 0) as boolean), false) then true else"
    assert holds in found
    assert "raise_error('sound.whole: a row is not as expected')" in found
    assert found.count(".where(") == 2


def test_what_has_no_place_there_is_told():
    assert project().left_out == {
        "totals": "mode update: declarative pipelines append to topics",
        "archive": "archives: `goqueue pipeline archive` keeps them",
        "shown": "the console: nobody looks at it there",
    }


def test_the_project_file():
    found = msgspec.yaml.decode(project().files["spark-pipeline.yml"])
    assert found == {
        "name": "orders",
        "storage": "file:///project/storage",
        "libraries": [{"glob": {"include": "transformations/**"}}],
        "configuration": {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "4",
        },
    }

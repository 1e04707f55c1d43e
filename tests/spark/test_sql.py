"""Topics as tables of a query."""

import json

import pytest

from goqueue.spark.runtime.job_runner import Runner
from goqueue.spark.runtime.stop import Stop
from goqueue.spark.sql.job import BadQuery, TopicRange, query
from goqueue.spark.sql.live_query import best_mode, follow, live_frame
from goqueue.spark.sql.rows import plain_rows
from tests.spark.conftest import START_MS


@pytest.fixture
def ask(spark, client, broker):
    """`ask(sql)`: the rows as mappings."""

    def ask(text, **options):
        return plain_rows(query(spark, client, broker, text, **options).collect())

    return ask


def orders(count, **others):
    return [
        json.dumps({"id": each, "store": f"s{each % 3}", "amount": each / 2, **others})
        for each in range(count)
    ]


def test_fields_of_json_are_columns(ask, fill, topic):
    fill(topic, 0, orders(60))
    fill(topic, 1, orders(30))
    text = (
        f"select store, count(*) as n, sum(amount) as amount from `{topic}` group by 1 order by 1"
    )
    assert ask(text) == [
        {"store": "s0", "n": 30, "amount": 352.5},
        {"store": "s1", "n": 30, "amount": 367.5},
        {"store": "s2", "n": 30, "amount": 382.5},
    ]


def test_the_messages_own_columns_have_an_underscore(ask, fill, topic):
    fill(topic, 1, orders(3), headers=(("kind", b"test"),))
    (row,) = ask(
        "select _key, _topic, _partition, _offset, _timestamp, _value, _headers"
        f" from `{topic}` where _offset = 2"
    )
    assert row == {
        "_key": f"key-{orders(3)[2]}",
        "_topic": topic,
        "_partition": 1,
        "_offset": 2,
        "_timestamp": "2023-11-14T22:13:20.002Z",
        "_value": orders(3)[2],
        "_headers": [{"key": "kind", "value": "test"}],
    }


def test_other_values_are_text(ask, fill, topic):
    fill(topic, 0, ["hello", "world"])
    assert ask(f"select value from `{topic}` order by value") == [
        {"value": "hello"},
        {"value": "world"},
    ]


def test_topics_join_and_may_have_dots_in_their_names(ask, fill, make_topic, names):
    left, right = make_topic(1, f"{next(names)}.orders"), make_topic(1, f"{next(names)}.stores")
    fill(left, 0, orders(6))
    fill(right, 0, [json.dumps({"store": f"s{each}", "city": f"c{each}"}) for each in range(2)])
    text = (
        f"with places as (select * from `{right}`) select city, count(*) as n"
        f" from `{left}` join places using (store) where store in (select store from `{right}`)"
        " group by city order by city"
    )
    assert ask(text) == [{"city": "c0", "n": 2}, {"city": "c1", "n": 2}]


def test_describe_proposes_a_schema(ask, fill, topic):
    fill(topic, 0, orders(3, tags=["a"]))
    found = {each["col_name"]: each["data_type"] for each in ask(f"describe `{topic}`")}
    assert list(found.items())[:4] == [
        ("id", "bigint"),
        ("store", "string"),
        ("amount", "double"),
        ("tags", "array<string>"),
    ]


def test_a_schema_of_ones_own(ask, fill, topic):
    fill(topic, 0, ['{"id": 1, "at": "2026-01-31T12:00:00Z"}', '{"id": "x"}', "no json"])
    rows = ask(
        f"select id, at, _corrupt from `{topic}` order by _offset",
        schemas={topic: "id bigint, at timestamp"},
    )
    assert rows == [
        {"id": 1, "at": "2026-01-31T12:00:00.000Z", "_corrupt": None},
        {"id": None, "at": None, "_corrupt": '{"id": "x"}'},
        {"id": None, "at": None, "_corrupt": "no json"},
    ]


def test_a_range_of_time(ask, fill, topic):
    fill(topic, 0, map(str, range(10)))
    wanted = TopicRange(from_time=START_MS + 3, to_time=START_MS + 6)
    found = ask(f"select value from `{topic}` order by value", messages=wanted)
    assert [each["value"] for each in found] == ["3", "4", "5"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("select * from nosuch", "there is no topic 'nosuch'; there are: "),
        ("selec 1", "Syntax error at or near 'selec'"),
        ("select nope from `{topic}`", "with name `nope` cannot be resolved"),
    ],
)
def test_a_bad_query_says_why(ask, topic, text, complaint):
    with pytest.raises(BadQuery) as caught:
        ask(text.format(topic=topic))
    assert complaint in str(caught.value)
    assert "\tat " not in str(caught.value)


def test_a_topic_with_a_dot_needs_backticks_and_is_told_so(ask, make_topic, names):
    name = make_topic(1, next(names).replace("-", "") + ".orders")
    with pytest.raises(BadQuery, match="goes in backticks"):
        ask(f"select * from {name}")


# --- as it comes ----------------------------------------------------------------------------------


def test_following_shows_what_comes(spark, client, broker, fill, topic):
    fill(topic, 0, orders(3))
    stop = Stop()
    seen = []

    def present(batch, rows):
        seen.extend(rows)
        if len(seen) == 3:
            fill(topic, 1, orders(5))
        if len(seen) >= 8:
            stop.ask()

    frame = query(spark, client, broker, f"select id from `{topic}`", is_stream=True)
    assert best_mode(spark, frame) == "append"
    running = Runner(spark, stop, lambda _: None, stop_seconds=30)
    with follow(spark, frame, present, rows_max=100) as stream:
        running.streams([stream])
    assert sorted(each["id"] for each in seen) == [0, 0, 1, 1, 2, 2, 3, 4]


def test_following_an_aggregate_shows_what_changes(spark, client, broker, fill, topic):
    fill(topic, 0, orders(3))
    text = f"select store, count(*) as n from `{topic}` group by store"
    frame = query(spark, client, broker, text, is_stream=True)
    assert best_mode(spark, frame) == "update"
    ordered = query(spark, client, broker, f"{text} order by n", is_stream=True)
    assert best_mode(spark, ordered) == "complete"


def test_an_aggregate_that_is_followed_begins_with_what_is_there(
    spark, client, broker, fill, topic
):
    fill(topic, 0, orders(30))
    stop = Stop()
    seen = []

    def present(batch, rows):
        seen.append({each["store"]: each["n"] for each in rows})
        stop.ask()

    def build(only_new, text=f"select store, count(*) as n from `{topic}` group by store"):
        messages = TopicRange(only_new=only_new)
        return query(spark, client, broker, text, messages=messages, is_stream=True)

    running = Runner(spark, stop, lambda _: None, stop_seconds=30)
    with follow(spark, live_frame(build, spark), present, rows_max=100) as stream:
        running.streams([stream])
    assert seen == [{"s0": 10, "s1": 10, "s2": 10}]
    asked = []

    def build_plain(only_new):
        asked.append(only_new)
        return build(only_new, f"table `{topic}`")

    live_frame(build_plain, spark)
    assert asked[-1] is True, "of other queries only what comes is shown"


def test_nothing_to_follow(spark, client, broker):
    frame = query(spark, client, broker, "select 1", is_stream=True)
    with (
        pytest.raises(BadQuery, match="no topic in this query"),
        follow(spark, frame, lambda batch, rows: None, rows_max=1),
    ):
        pass


def test_sql_at_the_command_line(run_here, fill, topic):
    fill(topic, 0, [json.dumps({"id": each, "store": f"s{each % 3}"}) for each in range(9)])
    text = f"select store, count(*) as n from `{topic}` group by store order by store"
    done = run_here("pipeline", "sql", text, "--limit", "2", "-o", "json", code=0)
    assert json.loads(done.stdout) == [{"store": "s0", "n": 3}, {"store": "s1", "n": 3}]
    assert done.stderr == "there are more rows; --limit shows more than 2\n"

"""Texts as Spark 4.3 gives them, and what is left of them."""

import pytest

from goqueue.spark.runtime.causes import cause_in, cause_of

STREAM = """\
[STREAM_FAILED] Query [id = 60ec, runId = f023] terminated with exception: [PYTHON_EXCEPTION] An \
exception was thrown from the Python worker: Traceback (most recent call last):
  File "/opt/job.py", line 28, in bad
    raise ValueError("the cause itself")
ValueError: the cause itself
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 60ec, runId = f023]
Current Committed Offsets: {RateStreamV2: 0}

Logical Plan:
WriteToMicroBatchDataSource noop-table
"""
OURS = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/goqueue/spark/source/partition_reader.py", line 28, in read
    raise DataLoss("orders-0: offset 5 is gone, the earliest is 100")
goqueue.spark.source.partition_reader.DataLoss: orders-0: offset 5 is gone, the earliest is 100;
start with `failOnDataLoss=false` to go on there"""
CHAINED = """\
Traceback (most recent call last):
  File "/opt/a.py", line 1, in a
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/a.py", line 3, in b
ConnectionError: nobody there"""
STAGE = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: \
Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor driver): java.io.IOException: \
No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\tat org.apache.spark.X.y(X.scala:1)

Driver stacktrace:"""
NO_TABLE = """\
[TABLE_OR_VIEW_NOT_FOUND] The table or view `nosuch` cannot be found. Verify the spelling and \
correctness of the schema and catalog.
Search path: [`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`].
If you did not qualify the name with a schema, verify the current_schema() output, or qualify the \
name with the correct schema and catalog.
To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; \
line 1 pos 14;
'Aggregate ['b], ['a]
+- 'UnresolvedRelation [nosuch], [], false
"""
NO_COLUMN = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nope` \
cannot be resolved. Did you mean one of the following? [`id`]. SQLSTATE: 42703; line 1 pos 7;
'Project ['nope]
+- Range (0, 3, step=1, splits=Some(2))
"""
SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'c'. SQLSTATE: 42601 (line 1, pos 11)

== SQL ==
select a b c from d
-----------^^^
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (STREAM, "ValueError: the cause itself"),
        (
            OURS,
            "orders-0: offset 5 is gone, the earliest is 100;\n"
            "start with `failOnDataLoss=false` to go on there",
        ),
        (CHAINED, "ConnectionError: nobody there"),
        (STAGE, "No space left on device"),
        (NO_TABLE, "The table or view `nosuch` cannot be found (line 1, pos 14)"),
        (
            NO_COLUMN,
            "A column, variable, or function parameter with name `nope` cannot be resolved."
            " Did you mean one of the following? [`id`] (line 1, pos 7)",
        ),
        (
            SYNTAX,
            "Syntax error at or near 'c'. (line 1, pos 11)\n\n"
            "== SQL ==\nselect a b c from d\n-----------^^^",
        ),
        ("[USER_RAISED_EXCEPTION] boo SQLSTATE: P0001", "boo"),
        ("java.lang.OutOfMemoryError: Java heap space", "Java heap space"),
        ("a plain text", "a plain text"),
    ],
)
def test_the_cause_is_what_is_left(text: str, cause: str):
    assert cause_in(text) == cause


def test_a_long_text_is_cut():
    assert len(cause_in("x" * 100_000)) == 4000


class JavaThrowable:
    def __init__(self, text: str, cause: "JavaThrowable | None" = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:  # noqa: N802
        return f"org.apache.spark.SparkException: {self._text}"

    def getMessage(self) -> str:  # noqa: N802
        return self._text

    def getCause(self) -> "JavaThrowable | None":  # noqa: N802
        return self._cause


class Py4JJavaError(Exception):
    def __init__(self, java_exception: JavaThrowable) -> None:
        super().__init__("An error occurred while calling o32.sql.\n\tat a.b(c.scala:1)")
        self.java_exception = java_exception


def test_of_java_errors_the_innermost_counts():
    inner = JavaThrowable("the disk is full")
    assert cause_of(Py4JJavaError(JavaThrowable("stage failed", inner))) == "the disk is full"


def test_causes_in_a_circle_end():
    circle = JavaThrowable("round and round")
    circle._cause = circle
    assert cause_of(Py4JJavaError(circle)) == "round and round"


def test_a_jvm_that_is_gone_is_said_so():
    assert "Java process is gone" in cause_of(ConnectionRefusedError(111, "Connection refused"))


def test_an_error_without_a_text_has_a_name():
    assert cause_of(KeyError()) == "KeyError"


class StreamingQueryException(Exception):
    """As Spark's: a text of its own, and the Java exception that it stands for."""

    def __init__(self, text: str, origin: JavaThrowable) -> None:
        super().__init__(text)
        self._origin = origin

    def getCondition(self) -> str:  # noqa: N802
        return "STREAM_FAILED"


def test_where_the_text_says_nothing_the_java_cause_does():
    origin = JavaThrowable("outer", JavaThrowable("state store file 7.delta is missing"))
    error = StreamingQueryException("Exception thrown in awaitResult:  SQLSTATE: XXKST", origin)
    assert cause_of(error) == "state store file 7.delta is missing"
    told = StreamingQueryException("[PYTHON_EXCEPTION] a sentence", origin)
    assert cause_of(told) == "a sentence"


def test_what_is_written_for_people_comes_before_what_is_innermost():
    inner = JavaThrowable("goqueue.DefaultSource")
    outer = JavaThrowable("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: goqueue.", inner)
    assert cause_of(Py4JJavaError(outer)) == "Failed to find the data source: goqueue."

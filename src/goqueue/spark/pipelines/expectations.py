"""What every row of a source or a step must be (`expect:`), and what becomes of one that is not.

A condition that is null does not hold.  Rows are counted for each expectation, in Spark's observed
metrics under `expect.VIEW`, before any of them leaves a row out.  What is set aside goes to its
topic by a query of its own, from the rows as they were.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.model import BadTopic, Expectation, FileSource, Source, Step
from goqueue.spark.runtime.progress import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROW_SHOWN_MAX: Final = 200
NAME_HEADER: Final = "gq-expectation"
# Of a message that was set aside, where the rows have these columns.
ORIGIN_HEADERS: Final = {
    "gq-source-topic": "_topic",
    "gq-source-partition": "_partition",
    "gq-source-offset": "_offset",
}


def expectations_of(view: Source | Step) -> dict[str, Expectation]:
    """A text alone is a condition that must hold."""
    if isinstance(view, FileSource):
        return {}
    return {
        name: Expectation(each) if isinstance(each, str) else each
        for name, each in view.expect.items()
    }


def topics_of(view: Source | Step) -> Iterator[tuple[str, BadTopic]]:
    """The topics that take rows of this view, by the expectation they do not meet."""
    for name, each in expectations_of(view).items():
        if isinstance(each.otherwise, BadTopic):
            yield name, each.otherwise


def enforce(frame: "DataFrame", name: str, expectations: dict[str, Expectation]) -> "DataFrame":
    """The rows that meet them; those that do not are counted, and left out or fatal."""
    from pyspark.sql import functions

    if not expectations:
        return frame
    counts = (
        functions.count_if(~_holds(each)).alias(expectation)
        for expectation, each in expectations.items()
    )
    frame = frame.observe(f"{OBSERVED}{name}", *counts)
    for expectation, each in expectations.items():
        match each.otherwise:
            case "fail":
                frame = frame.where(_demand(frame, f"{name}.{expectation}", each))
            case "drop" | BadTopic():
                frame = frame.where(_holds(each))
            case "keep":
                pass
    return frame


def select_unmet(frame: "DataFrame", expectation: Expectation) -> "DataFrame":
    return frame.where(~_holds(expectation))


def rejected_messages(frame: "DataFrame", name: str) -> "DataFrame":
    """Rows as JSON objects, with the expectation and, where it is known, the message they were."""
    from pyspark.sql import functions

    headers = {NAME_HEADER: functions.lit(name)} | {
        header: functions.col(column).cast("string")
        for header, column in ORIGIN_HEADERS.items()
        if column in frame.columns
    }
    named = [each for each in frame.columns if not each.startswith("_")]
    columns = [
        functions.to_json(
            functions.struct(*(frame[f"`{each}`"] for each in named)), {"ignoreNullFields": "false"}
        ).alias("value"),
        functions.array(
            *(
                functions.struct(
                    functions.lit(header).alias("key"), text.cast("binary").alias("value")
                )
                for header, text in headers.items()
            )
        ).alias("headers"),
    ]
    key = [functions.col("_key").alias("key")] if "_key" in frame.columns else []
    return frame.select(*key, *columns)


def _holds(expectation: Expectation) -> "Column":
    from pyspark.sql import functions

    return functions.coalesce(functions.expr(expectation.sql).cast("boolean"), functions.lit(False))


def _demand(frame: "DataFrame", name: str, expectation: Expectation) -> "Column":
    """A filter, since Spark leaves out columns that nobody asks for, and their errors."""
    from pyspark.sql import functions

    row = functions.to_json(functions.struct(*(frame[f"`{each}`"] for each in frame.columns)))
    complaint = functions.concat(
        functions.lit(f"{name}: expected {expectation.sql}, and there is "),
        functions.left(row, functions.lit(ROW_SHOWN_MAX)),
        functions.lit("; otherwise: drop, keep or a topic would go on"),
    )
    return functions.when(_holds(expectation), functions.lit(True)).otherwise(
        functions.raise_error(complaint).cast("boolean")
    )

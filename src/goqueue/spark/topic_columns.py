"""The columns of a topic, named and typed as Spark's Kafka source has them.

Here in the words of Spark's SQL, which planning needs; `columns/layout.py` has Arrow's types.
"""

from collections.abc import Mapping
from typing import Final

HEADERS: Final = "array<struct<key:string,value:binary>>"
RECORD_COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",  # 0: the producer's time, 1: the broker's at append
    "headers": HEADERS,  # null, not empty, when a record has none
}
# One row for each record batch, with its bytes as they were fetched.
BATCH_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "baseOffset": "bigint",
    "lastOffset": "bigint",
    "maxTimestamp": "timestamp",
    "records": "int",
    "batch": "binary",
}
# Where records are, for tasks that fetch them themselves: offsets up to, not with, the end.
RANGE_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "startOffset": "bigint",
    "endOffset": "bigint",
}

"""Sessions of Spark Connect: a client without a JVM, whose driver is the server.

What reads and writes is found there: the package must be installed on the server, whose paths and
whose way to the broker count.  A function of ours for `foreachBatch` would be pickled and run on
the server, too, out of reach of the job that is told here; so what needs one is refused.
"""

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME: Final = "sc://"
NEEDED: Final = ("grpc", "grpc_status", "pandas")  # what pyspark[connect] brings
SETTINGS: Final = {"spark.sql.session.timeZone": "UTC"}


class NoConnect(ClientError):
    """A client of Spark Connect cannot be made here."""


def is_connect(master: str | None) -> bool:
    return master is not None and master.startswith(SCHEME)


def is_connected(spark: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def connect(url: str, *, app_name: str, settings: Mapping[str, str]) -> "SparkSession":
    """Raises `NoConnect`, and what Spark raises for a server that is not there."""
    missing = [each for each in NEEDED if importlib.util.find_spec(each) is None]
    if missing:
        raise NoConnect(f"{url}: {', '.join(missing)} is missing: pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).remote(url)
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()

"""What an archive is told, by a program or by the command line."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from goqueue.model.options import argument, option

Decode = Literal["none", "json", "registry"]
LakeFormat = Literal["parquet", "delta", "iceberg"]


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str = "localhost:9092"
    """The broker's Kafka listener, as HOST:PORT."""
    topics: Annotated[tuple[str, ...], argument("Topics to archive.", metavar="[TOPIC...]")] = ()
    target: Annotated[
        str,
        option("Directory or s3:// URL of the tables, one per topic.", "--to", "-d", metavar="DIR"),
    ] = "archive"
    """`target/orders`, and `target/orders_dlq` for bad rows."""
    format: Annotated[LakeFormat, option("parquet, delta or iceberg.", "-f", metavar="FORMAT")] = (
        "parquet"
    )
    catalog: Annotated[
        str | None,
        option(
            "Iceberg catalog, as PyIceberg's configuration names it. \\[a file beside the tables]",
            metavar="NAME",
        ),
    ] = None
    pattern: Annotated[
        str | None, option("Topics whose names match, also those created later.", metavar="REGEX")
    ] = None
    decode: Annotated[
        Decode,
        option(
            "json: fields of values become columns; registry: by their schemas; or none.",
            metavar="HOW",
        ),
    ] = "none"
    fields: Annotated[
        str | None,
        option("Columns with known types: 'id bigint, price double'.", metavar="COLUMNS"),
    ] = None
    keep_value: Annotated[bool, option("Also keep the original values; a replay needs them.")] = (
        True
    )
    start: Annotated[
        str, option("Where a new archive begins: earliest or latest.", metavar="WHERE")
    ] = "earliest"
    trigger: str = "1 minute"  # more often makes many small files
    """How often to commit what has come, or `available-now`: what is there, and end."""
    batch_bytes: int = 1 << 30
    """About how much to read for one commit: what a crash costs at most."""
    checkpoint: Annotated[
        str | None,
        option(
            "Spark's checkpoint. \\[in the directory of --to; of a URL, in ./checkpoints]",
            metavar="DIR",
        ),
    ] = None
    name: str | None = None
    compression: str = "zstd"
    file_bytes: int = 256 << 20
    source: Mapping[str, str] = {}
    """Further options of the format `goqueue`."""

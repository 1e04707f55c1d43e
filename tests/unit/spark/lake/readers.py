"""Tables as others read them, who know nothing of our code."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs


def read_as_others(format: str, folder: Path) -> Any:
    """All rows of a table, as a pyarrow.Table."""
    match format:
        case "parquet":
            return _plain(folder)
        case "delta":
            from deltalake import DeltaTable

            return pa.table(DeltaTable(folder).to_pyarrow_table())
        case "iceberg":
            from pyiceberg.catalog.sql import SqlCatalog

            catalog = SqlCatalog("goqueue", uri=f"sqlite:///{folder.parent}/catalog.db")
            return catalog.load_table(("goqueue", folder.name)).scan().to_arrow()
        case _:
            raise AssertionError(format)


def read_from_store(format: str, url: str, catalog: str = "") -> Any:
    """The same of a table in an object store; `catalog`: its name and namespace."""
    match format:
        case "parquet":
            filesystem, path = pa.fs.FileSystem.from_uri(url)
            place = {"format": "parquet", "filesystem": filesystem, "partitioning": "hive"}
            return pa.dataset.dataset(path, **place).to_table()
        case "delta":
            from deltalake import DeltaTable

            options = {"AWS_ALLOW_HTTP": "true"}
            return pa.table(DeltaTable(url, storage_options=options).to_pyarrow_table())
        case "iceberg":
            from pyiceberg.catalog import load_catalog

            name, _, namespace = catalog.partition(".")
            table = f"{namespace}.{url.rpartition('/')[2]}"
            place = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]}
            return load_catalog(name, **place).load_table(table).scan().to_arrow()
        case _:
            raise AssertionError(format)


def read_by_duckdb(format: str, folder: Path) -> Any:
    """All rows, as DuckDB reads the files that make up the table; another engine altogether.

    Its extensions for Delta and Iceberg are not on PyPI, so the lists of files are theirs.
    """
    import duckdb

    match format:
        case "parquet":  # as the guide says
            files = [f"{folder}/*=*/*.parquet"]
        case "delta":
            from deltalake import DeltaTable

            files = [each.removeprefix("file://") for each in DeltaTable(folder).file_uris()]
        case _:
            from pyiceberg.catalog.sql import SqlCatalog

            catalog = SqlCatalog("goqueue", uri=f"sqlite:///{folder.parent}/catalog.db")
            found = catalog.load_table(("goqueue", folder.name)).scan().plan_files()
            files = [each.file.file_path.removeprefix("file://") for each in found]
    query = "select * from read_parquet(?, union_by_name=true, hive_partitioning=true)"
    rows = duckdb.sql(query, params=[files])
    assert rows is not None, "a query has rows"
    return rows.to_arrow_table()


def _plain(folder: Path) -> Any:
    """A folder of Parquet files, whose columns may have grown from file to file."""
    found = pa.dataset.dataset(folder, format="parquet", partitioning="hive")
    if not found.files:
        return pa.table({})
    schemas = [each.physical_schema for each in found.get_fragments()]
    whole = pa.unify_schemas([found.schema, *schemas])
    return pa.dataset.dataset(folder, whole, format="parquet", partitioning="hive").to_table()

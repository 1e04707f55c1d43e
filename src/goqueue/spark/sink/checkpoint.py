"""What a streaming query's checkpoint says about it."""

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs

LOCAL: Final = ("", "file")
BYTES_MAX: Final = 4096


class Metadata(msgspec.Struct, frozen=True):
    id: str


def query_id(location: str) -> str | None:
    """The id that Spark gave the query and keeps; None where it cannot be read from here."""
    try:
        return msgspec.json.decode(_head(location), type=Metadata).id
    except (OSError, ValueError, pa.ArrowException):
        return None


def _head(location: str) -> bytes:
    """Of the file `metadata`: some forty bytes."""
    parts = urlsplit(location)
    if parts.scheme in LOCAL:
        with (Path(unquote(parts.path)) / "metadata").open("rb") as file:
            return file.read(BYTES_MAX)
    filesystem, path = pyarrow.fs.FileSystem.from_uri(location)
    with filesystem.open_input_stream(f"{path}/metadata") as stream:
        return bytes(stream.read(BYTES_MAX))

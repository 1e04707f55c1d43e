"""What a streaming query's checkpoint says about it, and about its micro-batches.

metadata        {"id": the query's}
offsets/41      v1, a line about the batch, and for each source where micro-batch 41 ends
"""

import hashlib
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs

LOCAL: Final = ("", "file")
METADATA_BYTES_MAX: Final = 4096
OFFSETS_BYTES_MAX: Final = 16 * 1024 * 1024
OFFSETS_LINE: Final = 2  # the first one that is a source's
CONTENTS_LENGTH_MAX: Final = 4096  # above that a digest stands for it
NO_OFFSETS: Final = "-"  # of a source that has none yet


class Metadata(msgspec.Struct, frozen=True):
    id: str


def query_id(location: str) -> str | None:
    """The id that Spark gave the query and keeps; None where it cannot be read from here."""
    try:
        return msgspec.json.decode(_read(location, "metadata"), type=Metadata).id
    except (OSError, ValueError, pa.ArrowException):
        return None


def batch_contents(location: str, number: int) -> str | None:
    """Where a micro-batch ends, in each of its sources; None where that cannot be read.

    It begins where the one before it ends, about which its own decision says as much.
    """
    try:
        text = msgspec.json.encode(_offsets(location, number)).decode()
    except (OSError, ValueError, pa.ArrowException):
        return None
    if len(text) <= CONTENTS_LENGTH_MAX:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _offsets(location: str, number: int) -> list[msgspec.Raw | None]:
    lines = _read(location, f"offsets/{number}", OFFSETS_BYTES_MAX).decode().splitlines()
    if len(lines) <= OFFSETS_LINE:
        raise ValueError(f"offsets/{number} names no source")
    return [None if each == NO_OFFSETS else _json(each) for each in lines[OFFSETS_LINE:]]


def _json(line: str) -> msgspec.Raw:
    """The line as it is; of a source whose offsets are no JSON, as text."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return msgspec.Raw(msgspec.json.encode(line))
    return msgspec.Raw(line.encode())


def _read(location: str, name: str, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
    parts = urlsplit(location)
    if parts.scheme in LOCAL:
        with (Path(unquote(parts.path)) / name).open("rb") as file:
            return file.read(bytes_max)
    filesystem, path = pyarrow.fs.FileSystem.from_uri(location)
    with filesystem.open_input_stream(f"{path}/{name}") as stream:
        return bytes(stream.read(bytes_max))

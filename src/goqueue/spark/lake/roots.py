"""What a place of tables is called: the absolute path of a folder, or a URL in one form."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from goqueue.client.errors import ClientError

REMOTE: Final = ("s3", "gs", "abfss")
SYNONYMS: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}


class StoreError(ClientError):
    """A place where no table can be, or that cannot be reached."""


def normalize(root: str | Path) -> str:
    """A folder's absolute path, or a URL in one form; raises `StoreError` for other schemes."""
    text = str(root)
    parts = urlsplit(text)
    if "://" not in text or parts.scheme == "file":
        return str(Path(text.removeprefix("file://")).absolute())
    scheme = SYNONYMS.get(parts.scheme, parts.scheme)
    if scheme not in REMOTE:
        known = ", ".join(f"{each}://" for each in REMOTE)
        raise StoreError(f"{text}: a lake is a folder, or in an object store: {known}")
    if not parts.netloc:
        raise StoreError(f"{text}: which bucket? Write {scheme}://BUCKET/FOLDER")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_remote(root: str) -> bool:
    return "://" in root


def join(root: str | Path, name: str) -> str:
    """A place below another one."""
    return f"{normalize(root)}/{name}"


def base_name(root: str | Path) -> str:
    return normalize(root).rpartition("/")[2]

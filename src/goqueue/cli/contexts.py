"""The client's own file: named servers, and which of them is in use.

    current-context: staging
    contexts:
      staging: {server: "https://queue.staging:8080", ca-file: ca.pem, api-key: …, timeout: 30}

It may hold keys and passwords, so only its owner can read it.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from goqueue.cli.failures import UsageFailure

FILE_VARIABLE: Final = "GOQUEUE_CONFIG"
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class ServerContext(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    server: str | None = None
    api_key: str | None = None
    timeout: float | None = None
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def without_secrets(self, instead: str | None = None) -> "ServerContext":
        """`instead` stands where there was one."""
        return msgspec.structs.replace(
            self,
            api_key=instead if self.api_key else None,
            password=instead if self.password else None,
        )


class ContextFile(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    current_context: str | None = None
    contexts: dict[str, ServerContext] = {}

    def find(self, name: str) -> ServerContext:
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise UsageFailure(
                f"there is no context {name!r} in {path()} (there: {known});"
                f" make it with `goqueue config set-context {name} --server URL`"
            ) from None


def path() -> Path:
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else Path.home() / ".goqueue" / "config.yaml"


def load() -> ContextFile:
    """What the file holds; nothing when there is none."""
    file = path()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return ContextFile()
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from error
    if not data.strip():
        return ContextFile()
    try:
        return msgspec.yaml.decode(data, type=ContextFile)
    except msgspec.DecodeError as error:
        raise UsageFailure(f"{file} is not a file of contexts: {error}") from error


def save(contexts: ContextFile) -> None:
    """Replace the file in one step: another command sees the old one or the new one."""
    file = path()
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.yaml.encode(contexts))
        draft.replace(file)
    except OSError as error:
        raise UsageFailure(f"{file} cannot be written: {error.strerror}") from error

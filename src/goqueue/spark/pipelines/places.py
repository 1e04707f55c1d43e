"""Where a pipeline's things are: paths in its file are relative to the file."""

from pathlib import Path

import msgspec

from goqueue.spark.source.option_texts import LOGIN_FILE


class Places(msgspec.Struct, frozen=True):
    bootstrap: str
    folder: Path
    """Of the pipeline's file."""
    checkpoints: str
    name: str
    login: str = ""
    """File of Kafka's settings to log in with; empty: what `GOQUEUE_KAFKA_CONFIG` names."""

    def broker_options(self) -> dict[str, str]:
        """Where the broker is and how to log in, for the format `goqueue`."""
        found = {"bootstrap.servers": self.bootstrap}
        return {**found, LOGIN_FILE: self.path(self.login)} if self.login else found

    def path(self, text: str) -> str:
        """A path, or a URL as it is."""
        return text if "://" in text else str((self.folder / text).resolve())

    def checkpoint(self, sink: str) -> str:
        """Of one sink: each is a query of its own."""
        return f"{self.path(self.checkpoints)}/{self.name}/{sink}"

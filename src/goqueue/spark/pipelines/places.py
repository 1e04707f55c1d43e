"""Where a pipeline's things are: paths in its file are relative to the file."""

from pathlib import Path

import msgspec


class Places(msgspec.Struct, frozen=True):
    bootstrap: str
    folder: Path
    """Of the pipeline's file."""
    checkpoints: str
    name: str

    def path(self, text: str) -> str:
        """A path, or a URL as it is."""
        return text if "://" in text else str((self.folder / text).resolve())

    def checkpoint(self, sink: str) -> str:
        """Of one sink: each is a query of its own."""
        return f"{self.path(self.checkpoints)}/{self.name}/{sink}"

"""What a folder of pipeline files declares, looked at again and again."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from goqueue.spark.pipelines.model import Pipeline
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.pipelines.tree import PipelineProblems, line_of

SUFFIXES: Final = (".yaml", ".yml")
FILE_BYTES_MAX: Final = 1 << 20


class Declared(msgspec.Struct, frozen=True):
    """A file, as it was last seen."""

    name: str
    """The pipeline's; of a file that cannot be read, the file's own."""
    file: Path
    version: str
    """Another one: the file was changed."""
    pipeline: Pipeline | None = None
    problem: str | None = None


class Declarations(Protocol):
    """Whatever declares pipelines."""

    def look(self) -> list[Declared]:
        """All of them, as they are now."""


class Together:
    """Several; of two pipelines with one name the later one counts."""

    def __init__(self, *parts: Declarations) -> None:
        self._parts = parts

    def look(self) -> list[Declared]:
        found = {each.name: each for part in self._parts for each in part.look()}
        return list(found.values())


class Folder:
    """Files that have not changed since are not read again."""

    def __init__(self, path: Path, variables: Mapping[str, str]) -> None:
        self.path = path
        self._variables = variables
        self._seen: dict[Path, tuple[tuple[int, int], Declared]] = {}
        self._last: list[Declared] = []

    def look(self) -> list[Declared]:
        """All of them by name; of two with one name the second file has the problem.

        A folder that is not there, since its disk is away, stops no pipeline.
        """
        try:
            files = sorted(self.path.iterdir())
        except OSError:
            return self._last
        found: dict[str, Declared] = {}
        for file in files:
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            declared = self._read(file)
            if declared.name in found:
                other = found[declared.name].file.name
                problem = f"{other} is a pipeline of this name, too"
                declared = Declared(file.name, file, declared.version, problem=problem)
            found[declared.name] = declared
        self._last = list(found.values())
        return self._last

    def _read(self, file: Path) -> Declared:
        try:
            status = file.stat()
            stamp = status.st_mtime_ns, status.st_size
            seen = self._seen.get(file)
            if seen is not None and seen[0] == stamp:
                return seen[1]
            if status.st_size > FILE_BYTES_MAX:
                return Declared(file.name, file, str(stamp), problem="larger than 1 MiB")
            content = file.read_bytes()
        except OSError as error:
            return Declared(file.name, file, "", problem=f"cannot be read: {error.strerror}")
        declared = self._parse(file, content)
        self._seen[file] = stamp, declared
        return declared

    def _parse(self, file: Path, content: bytes) -> Declared:
        version = hashlib.sha256(content).hexdigest()[:12]
        try:
            text = content.decode()
            pipeline = read_pipeline(text, self._variables)
        except UnicodeDecodeError:
            return Declared(file.name, file, version, problem="not a text in UTF-8")
        except PipelineProblems as error:
            told = explain_problems(file.name, content.decode(), error)
            return Declared(self._known_name(file), file, version, problem=told)
        return Declared(pipeline.name, file, version, pipeline)

    def _known_name(self, file: Path) -> str:
        """A pipeline that runs keeps its name while somebody edits its file."""
        seen = self._seen.get(file)
        return seen[1].name if seen is not None else file.name


def explain_problems(file: str, text: str, error: PipelineProblems) -> str:
    return "\n".join(
        f"{file}:{each.line or line_of(text, each.path)}: {each}" for each in error.problems
    )

"""Pipelines as files."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.cli.failures import UsageFailure

if TYPE_CHECKING:
    from goqueue.spark.pipelines.places import Places
    from goqueue.spark.pipelines.tree import PipelineProblems


class PipelineFile:
    """What a file declares.  A usage failure lists all its problems, a line each."""

    def __init__(self, file: str) -> None:
        from goqueue.spark.pipelines.reading import read_pipeline

        self._file = file
        self._text = _read(file)
        with self.problems_shown():
            self.pipeline = read_pipeline(self._text, os.environ)

    @contextlib.contextmanager
    def problems_shown(self) -> Iterator[None]:
        from goqueue.spark.pipelines.tree import PipelineProblems

        try:
            yield
        except PipelineProblems as error:
            raise UsageFailure(self._format_problems(error)) from error

    def _format_problems(self, error: "PipelineProblems") -> str:
        from goqueue.spark.pipelines.tree import line_of

        count = len(error.problems)
        found = [
            f"{self._file}:{each.line or line_of(self._text, each.path)}: {each}"
            for each in error.problems
        ]
        return "\n".join([f"{count} problems" if count > 1 else "a problem", *found])

    @property
    def login(self) -> str | None:
        """The file that it logs in with."""
        return self.places("").path(self.pipeline.login) if self.pipeline.login else None

    def places(self, bootstrap: str) -> "Places":
        from goqueue.spark.pipelines.places import Places

        folder = Path(self._file).resolve().parent
        pipeline = self.pipeline
        return Places(bootstrap, folder, pipeline.checkpoints, pipeline.name, pipeline.login)

    def spark_settings(self) -> dict[str, str]:
        from goqueue.spark.pipelines.frames import option_texts

        return option_texts(self.pipeline.settings)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{file} is not a text in UTF-8") from error
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from error

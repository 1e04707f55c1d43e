"""Pipelines as files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.cli.failures import UsageFailure

if TYPE_CHECKING:
    from goqueue.spark.pipelines.model import Pipeline
    from goqueue.spark.pipelines.tree import PipelineProblems


def declared(file: str) -> "Pipeline":
    """What the file declares; a usage failure that lists all its problems, a line each."""
    from goqueue.spark.pipelines.reading import read_pipeline
    from goqueue.spark.pipelines.tree import PipelineProblems

    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{file} is not a text in UTF-8") from error
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from error
    try:
        return read_pipeline(text, os.environ)
    except PipelineProblems as error:
        raise UsageFailure(listed(file, error)) from error


def listed(file: str, error: "PipelineProblems") -> str:
    count = len(error.problems)
    found = [f"{file}:{each.line or 1}: {each}" for each in error.problems]
    return "\n".join([f"{count} problems" if count > 1 else "a problem", *found])

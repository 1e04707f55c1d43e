"""What the views of a pipeline stand on, by what their SQL names."""

import re
from typing import Final

from goqueue.spark.pipelines.model import Pipeline

# `from`, `join`, and the tables of a list before it, each perhaps with another name.
BEFORE_A_TABLE: Final = r"\b(?:from|join)\s+(?:[\w`.()]+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*"


def where_read(table: str) -> re.Pattern[str]:
    """The table where a query reads from it, and not a column of its name."""
    return re.compile(rf"({BEFORE_A_TABLE})`?{table}`?(?=[\s,);]|$)", re.IGNORECASE)


def sources_of(pipeline: Pipeline, view: str) -> list[str]:
    """The sources that rows of a view come from, in the order of the file."""
    found: dict[str, set[str]] = {name: {name} for name in pipeline.sources}
    for name, step in pipeline.steps.items():
        read = [each for each in found if where_read(each).search(step.sql)]
        found[name] = set().union(*(found[each] for each in read))
    wanted = found.get(view, set())
    return [name for name in pipeline.sources if name in wanted]

"""A YAML file as plain values, and the line that each of them begins on.

Lines are found by path: `("sinks", "totals", "from")`.  Variables, `${NAME}` or
`${NAME:-otherwise}`, are filled in here, so that everything behind sees plain text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from goqueue.client.errors import ClientError

FILE_CHARACTERS_MAX: Final = 1_000_000
VALUES_MAX: Final = 10_000  # aliases of aliases make a small file a large tree
VARIABLE: Final = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")
TIME_TAG: Final = "tag:yaml.org,2002:timestamp"

Path = tuple[str, ...]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to put right."""

    path: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class PipelineProblems(ClientError):
    """Everything that is wrong with a pipeline, at once."""

    def __init__(self, problems: list[Problem]) -> None:
        ordered = sorted(problems, key=lambda each: (each.line or 0, each.path))
        super().__init__("\n".join(_line(each) for each in ordered))
        self.problems = ordered


def _line(problem: Problem) -> str:
    return f"line {problem.line}: {problem}" if problem.line else str(problem)


class Tree:
    """Values, their lines, and what was found wrong so far."""

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self.problems: list[Problem] = []
        self._variables = variables
        self._lines: dict[Path, int] = {}
        self._values_left = VALUES_MAX
        self.root: Any = self._value(_compose(text), ())

    def problem(self, path: Path, text: str) -> None:
        found = Problem(".".join(path), text, self.line(path))
        if found not in self.problems:
            self.problems.append(found)

    def line(self, path: Path) -> int | None:
        """Of the value, or of the nearest one around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def names(self, *sections: str) -> list[str]:
        """What the sections name, whether or not it makes sense."""
        found = [self.root.get(each) for each in sections]
        return [name for each in found if isinstance(each, dict) for name in each]

    def _value(self, node: yaml.Node | None, path: Path) -> Any:
        if node is None:
            return None
        self._lines.setdefault(path, node.start_mark.line + 1)
        self._values_left -= 1
        if self._values_left < 0:
            raise PipelineProblems([Problem("", f"more than {VALUES_MAX} values in one file")])
        match node:
            case yaml.MappingNode():
                return dict(self._pairs(node, path))
            case yaml.SequenceNode():
                return [self._value(each, (*path, str(i))) for i, each in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _pairs(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            name = str(key_node.value)
            here = (*path, name)
            self._lines[here] = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(path, "a key must be plain text")
            elif name in seen:
                self.problem(here, "is there twice")
            else:
                seen.add(name)
                yield name, self._value(value_node, here)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag == TIME_TAG:
            return node.value  # as it was written: times are read where they are used
        value = yaml.SafeLoader("").construct_object(node)
        if not isinstance(value, str):
            return value
        return VARIABLE.sub(lambda found: self._fill(found, path), value)

    def _fill(self, found: re.Match[str], path: Path) -> str:
        value = self._variables.get(found["name"], found["otherwise"])
        if value is None:
            self.problem(path, f"the variable {found['name']} is not set")
        return value or ""


def _compose(text: str) -> yaml.Node | None:
    if len(text) > FILE_CHARACTERS_MAX:
        raise PipelineProblems([Problem("", f"longer than {FILE_CHARACTERS_MAX} characters")])
    try:
        composed: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(filter(None, (error.context, error.problem)))
        line = None if mark is None else mark.line + 1
        raise PipelineProblems([Problem("", f"not YAML: {words}", line)]) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PipelineProblems([Problem("", f"not YAML: {error}")]) from error
    return composed


def line_of(text: str, path: str) -> int:
    """The line of a path in a text that was read before."""
    return Tree(text, {}).line(tuple(path.split("."))) or 1

"""Processes that see what `pip install goqueue[spark]` brings, and nothing else that is here.

Here everything that developers need is installed, too: a job that imports some of it would work in
every test and fail at every user.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HIDES = """
import sys
from importlib.machinery import PathFinder

NAMES = frozenset({names!r})


class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in NAMES else PathFinder.find_spec(name, path, target)


sys.meta_path[:] = [Visible if each is PathFinder else each for each in sys.meta_path]
"""


def environment(directory: Path) -> dict[str, str]:
    """For a process: Python reads `sitecustomize` first, in those that Spark starts as well."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(HIDES.format(names=sorted(hidden_modules())))
    found = [str(directory), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in found if each)}


@cache
def hidden_modules() -> frozenset[str]:
    installed = distributions("goqueue", ("spark",))
    return frozenset(
        name
        for name, owners in metadata.packages_distributions().items()
        if name not in sys.stdlib_module_names
        and not installed & {canonicalize_name(owner) for owner in owners}
    )


def distributions(name: str, extras: Iterable[str]) -> set[str]:
    """What pip installs for it, by the names that pip gives."""
    found: set[str] = set()
    waiting = [Requirement(f"{name}[{','.join(extras)}]")]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        found.add(canonicalize_name(wanted.name))
        try:
            needs = metadata.requires(wanted.name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform
        for text in needs:
            need = Requirement(text)
            if need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                waiting.append(need)
    return found

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


class Hidden:
    names = frozenset({names!r})

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}, not in goqueue[spark]")


sys.meta_path.insert(0, Hidden())
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

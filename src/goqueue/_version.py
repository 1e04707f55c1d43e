"""The version, said once, and how this copy of the package runs.

An install with a C compiler at hand leaves an extension beside each hot `.py` file, and Python
prefers the extension.  So what is on disk tells the truth: no list is kept here.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__version__ = "0.1.0"


def compiled_modules() -> tuple[str, ...]:
    """The modules of this installation that run compiled; empty when all are interpreted."""
    package = Path(__file__).parent
    return tuple(
        sorted(
            ".".join(
                (package.name, *path.relative_to(package).parent.parts, path.name.split(".")[0])
            )
            for suffix in EXTENSION_SUFFIXES
            for path in package.rglob(f"*{suffix}")
            if path.name.removesuffix(suffix).isidentifier()
        )
    )

"""Writes the synchronous HTTP client from the asynchronous one: `make generate`.

The two differ in a few words, which are replaced in the text of each module; ruff then puts the
result in form.  A rule of our own in `make check` fails when a generated module is not current.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CLIENT: Final = ROOT / "src/goqueue/client/http"
MODULES: Final = ("client", "schedules", "traces", "transactions")  # each from `async_…`

WORDS: Final = (
    # An expression in parentheses only because it is awaited needs them no more.
    (r"(?<![\w\])])\(await ([^\n]*)\)\.(\w+)", r"\1.\2"),
    (r"await asyncio\.gather\(\*map\((.*?)\)\)", r"map(\1)"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"contextlib\.asynccontextmanager", "contextlib.contextmanager"),
    (r"AsyncGenerator\[(\w+), None\]", r"Iterator[\1]"),
    (r"\bAsyncGenerator\b", "Iterator"),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\b(async|await) ", ""),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\basync_(client|schedules|traces|transactions|verb)\b", r"\1"),
    (r"programs on an event loop", "programs that wait"),
    (r"for one task\b", "for one thread"),
)
LINT: Final = ("I", "F401", "UP028")  # order of imports, unused ones, `yield from`


def generate() -> Iterator[tuple[Path, str]]:
    """Each generated module: its path, and what it should hold."""
    for name in MODULES:
        source, target = CLIENT / f"async_{name}.py", CLIENT / f"{name}.py"
        text = source.read_text()
        for pattern, replacement in WORDS:
            text = re.sub(pattern, replacement, text)
        head = f"# Generated from {source.name} by `make generate`: change that one, not this.\n"
        yield target, _in_form(head + text, target)


def _in_form(text: str, path: Path) -> str:
    fixes = ("check", "--fix-only", "--unsafe-fixes", "--select", ",".join(LINT))
    for command in (fixes, ("format",)):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", path, "-"],
            input=text,
            capture_output=True,
            check=True,
            encoding="utf-8",
            cwd=ROOT,
        ).stdout
    return text


if __name__ == "__main__":
    for path, text in generate():
        path.write_text(text, encoding="utf-8")

"""Words that the project no longer uses; docs/glossary.md has those that it does.

Prose has none of them: README and docs, and through docs/reference also help, settings, metrics
and errors.  Code still has some: their number by package is listed here and may only get smaller.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "goqueue"
PAGES: Final = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]

# The old word as a pattern, and the better one.
IN_PROSE: Final = {
    r"undertakers?|bur(y|ies|ied)": "dead-letter",
    r"(?<!dead )(?<!dead-)letters?": "dead letter",
    r"hand(s|ed|ing)?[ -]outs?": "deliver, delivery",
    r"work(s|ed|ing)?( \w+)? off": "process, consume",
    r"comes? again": "is redelivered, is retried",
    r"taken? for dead|its death": "times out",
    r"parcels?": "batch of deliveries",
    r"doors?": "clock, disk, network; listener",
    r"mends?|mended": "repair, fix",
    r"by chance": "random",
    r"anew": "again",
}
IN_CODE: Final = {
    r"undertaker|bur(y|ied)": "dead_letter, DeadLettered",
    r"(?<!dead[-_ ])letters?": "dead_letter",
    r"hand_?outs?|hand_out": "delivery",
    r"parcels?": "delivery batch",
    r"shel(f|ves)": "prefetch buffer",
    r"bells?": "wait queue",
    r"heed(s|ed)?": "adopt_commit",
    r"doors": "environment",
    r"chance": "random",
    r"patience": "wait deadline",
    r"lobby|desk": "parked requests, context",
    r"let_go|take_back": "release",
    r"nonsense|spoken|sturdy": "decode errors, client versions, restarting",
}

# How many of them the code still has, by package.
KNOWN: Final[dict[str, int]] = {
    "api": 1,
    "broker/dlq": 120,
    "cli": 2,
    "cli/commands": 4,
    "cli/commands/pipeline": 6,
    "client/http": 3,
    "client/http/calls": 1,
    "log": 3,
    "model": 1,
    "queue": 68,
    "runtime": 2,
    "server": 9,
    "server/http/routes": 36,
    "spark/archive": 48,
    "spark/dlq": 43,
    "spark/pipelines": 4,
    "spark/report": 10,
    "spark/source": 2,
    "testing/sim": 34,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_words_of_the_glossary(page: Path):
    found = [
        f"  {page.relative_to(ROOT)}:{number}: {match[0]!r}, better: {better}"
        for number, line in enumerate(prose(page), start=1)
        for pattern, better in IN_PROSE.items()
        for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE)
    ]
    assert not found, "\n" + "\n".join(found)


def test_old_words_in_the_code_only_get_fewer():
    """All packages together, since code moves between them; the message names those with more."""
    found = old_words()
    more = [
        f"{package}: {count}, {KNOWN.get(package, 0)} known"
        for package, count in found.items()
        if count > KNOWN.get(package, 0)
    ]
    assert found.total() <= sum(KNOWN.values()), "IN_CODE has better words:\n" + "\n".join(more)


def test_types_of_the_glossary_exist():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    missing = [
        f"{path} {name}".strip()
        for path, name in re.findall(r"`([\w/]+\.py)`(?: `(\w+)`)?", text)
        if not has_name(SOURCE / path, name)
    ]
    assert not missing, f"docs/glossary.md names {missing}, which src/goqueue does not have"


def test_files_that_the_architecture_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    missing = sorted(path for path in named if not (SOURCE / path).exists())
    assert not missing, f"docs/architecture.md names {missing}, which src/goqueue does not have"


def has_name(path: Path, name: str) -> bool:
    if not path.exists():
        return False
    pattern = rf"^(class {name}\b|{name}\b.* = )"
    return not name or bool(re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))


def prose(page: Path) -> list[str]:
    """The lines of a page; code blocks, code spans and targets of links are blank."""
    lines, is_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(("```", "<!--")):
            is_code = not is_code if line.startswith("```") else is_code
            line = ""
        lines.append("" if is_code else re.sub(r"`[^`]*`|\]\([^)]*\)", "", line))
    return lines


@cache
def old_words() -> Counter[str]:
    """How many old words each package has, in names, comments and texts."""
    pattern = re.compile(
        "|".join(rf"(?<![a-zA-Z])(?:{each})(?![a-z])" for each in IN_CODE), re.IGNORECASE
    )
    counts: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        found = len(pattern.findall(path.read_text(encoding="utf-8")))
        if found:
            counts[str(path.parent.relative_to(SOURCE))] += found
    return counts

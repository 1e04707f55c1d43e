"""Words that the project no longer uses; docs/glossary.md has those that it does.

Neither prose has them (README and docs, and through docs/reference also help, settings, metrics and
errors) nor code.  What is stored or sent under an old name keeps it: the `name` and `tag` of a
struct are not looked at, any other line says why with `# rule-ok`.
"""

import re
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

PACKAGES: Final = [".", *sorted(each.name for each in SOURCE.iterdir() if each.is_dir())]

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
    r"(?<!dead[-_ ])letters?(?!, digits)": "dead_letter",
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

OLD_WORDS: Final = re.compile(
    "|".join(rf"(?<![a-zA-Z])(?:{old})(?![a-z])" for old in IN_CODE), re.IGNORECASE
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_words_of_the_glossary(page: Path):
    found = [
        f"  {page.relative_to(ROOT)}:{number}: {match[0]!r}, better: {better}"
        for number, line in enumerate(prose(page), start=1)
        for pattern, better in IN_PROSE.items()
        for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_code_uses_words_of_the_glossary(package: str):
    folder = SOURCE / package
    files = folder.glob("*.py") if folder == SOURCE else folder.rglob("*.py")
    found = [
        f"  {path.relative_to(ROOT)}:{number}: {better_words(match)}"
        for path in sorted(files)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for match in OLD_WORDS.finditer(line)
        if "rule-ok" not in line and not is_stored(match)
    ]
    assert not found, "\n" + "\n".join(found)


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


def better_words(match: re.Match[str]) -> str:
    better = next(words for old, words in IN_CODE.items() if re.match(old, match[0], re.IGNORECASE))
    return f"{match[0]!r}, better: {better}"


def is_stored(match: re.Match[str]) -> bool:
    """Whether it is a name that records or JSON have."""
    return bool(re.search(r'\b(name|tag)="\w*$', match.string[: match.start()]))

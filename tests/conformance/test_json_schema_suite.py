"""The official JSON-Schema-Test-Suite, draft 7 and 2020-12, through the registry's validator.

jsonschema's source archive on PyPI carries the suite; it is fetched once and kept in `.cache`.
Schemas are parsed, and payloads checked, as the registry and the broker do it.  Remote schemas of
the suite stand for schemas of other subjects.
"""

import hashlib
import json
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.schemas import SchemaText, SchemaType, parse_schema

URL = (
    "https://files.pythonhosted.org/packages/b3/fc/"
    "e067678238fa451312d4c62bf6e6cf5ec56375422aee02f9cb5f909b3047/jsonschema-4.26.0.tar.gz"
)
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
CACHE = Path(__file__).parents[2] / ".cache" / "json-schema-test-suite"
FETCH_SECONDS = 20
REMOTE = "http://localhost:1234/"
DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
CASES = {"draft7": 912, "draft2020-12": 1257}  # of this version of the suite, at least


@pytest.fixture(scope="module")
def suite() -> Path:
    archive = CACHE / "suite.tar.gz"
    if not archive.exists():
        try:
            with urllib.request.urlopen(URL, timeout=FETCH_SECONDS) as reply:
                content = reply.read()
        except OSError as error:
            pytest.skip(f"{URL} is not reached: {error}")
        assert hashlib.sha256(content).hexdigest() == SHA256
        CACHE.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(content)
    with tarfile.open(archive) as tar:
        tar.extractall(CACHE, filter="data")
    return CACHE / "jsonschema-4.26.0" / "json"


def remotes(suite: Path, draft: str) -> dict[str, SchemaText]:
    """By their addresses; those of other drafts are left out."""
    found = {}
    for path in (suite / "remotes").rglob("*.json"):
        place = path.relative_to(suite / "remotes")
        if not place.parts[0].startswith("draft") or place.parts[0] == draft:
            found[REMOTE + place.as_posix()] = SchemaText(path.read_text(), SchemaType.JSON)
    return found


def referenced(text: str, others: dict[str, SchemaText]) -> dict[str, SchemaText]:
    """Those that it names, and those that they name: what a subject gives as `references`."""
    found: dict[str, SchemaText] = {}
    waiting = [text] if REMOTE in text else []
    while waiting:
        text = waiting.pop()
        for name, each in others.items():
            if name not in found and name.rpartition("/")[2] in text:
                found[name] = each
                waiting.append(each.text)
    return found


def groups(suite: Path, draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((suite / "tests" / draft).glob("*.json")):
        for group in json.loads(path.read_text()):
            yield f"{path.name}: {group['description']}", group


@pytest.mark.parametrize("draft", list(DRAFTS))
def test_all_required_cases_pass(suite: Path, draft: str):
    others, wrong, count = remotes(suite, draft), [], 0
    for name, group in groups(suite, draft):
        schema = group["schema"]
        if isinstance(schema, dict):
            schema.setdefault("$schema", DRAFTS[draft])
        text = json.dumps(schema)
        references = referenced(text, others)
        validator = parse_schema(SchemaText(text, SchemaType.JSON), references).compile()
        for case in group["tests"]:
            problem = validator.check(memoryview(json.dumps(case["data"]).encode()))
            count += 1
            if (problem is None) is not case["valid"]:
                wrong.append(f"{name}: {case['description']}: {problem}")
    assert not wrong
    assert count >= CASES[draft]

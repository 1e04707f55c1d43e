"""The tests that `docs/proofs.md` names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_proofs_names_is_there():
    text = (ROOT / "docs" / "proofs.md").read_text()
    named = NAMED.findall(text)
    assert len(named) > 25
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert missing == []

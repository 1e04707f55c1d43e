"""`goqueue schema`: what is registered is checked, listed, compared and deleted."""

from pathlib import Path

import pytest

from tests.unit.cli.invocation import facts, run

USER = '{"type":"record","name":"U","fields":[{"name":"a","type":"int"}]}'
WIDER = USER.replace("}]", '},{"name":"b","type":"int"}]')


@pytest.mark.usefixtures("server")
def test_a_schema_is_registered_checked_listed_compared_and_deleted(tmp_path: Path):
    user, wider = tmp_path / "user.avsc", tmp_path / "wider.avsc"
    user.write_text(USER)
    wider.write_text(WIDER)
    assert facts("schema", "register", "u-value", user)["version"] == 1
    assert facts("schema", "check", "u-value", user)["is_compatible"]
    refused = run("schema", "check", "u-value", wider, code=1)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in refused.stdout
    run("schema", "register", "u-value", wider, code=5)
    assert facts("schema", "config")["compatibility"] == "BACKWARD"
    assert facts("schema", "config", "u-value", "--set", "none")["compatibility"] == "NONE"
    assert facts("schema", "register", "u-value", wider)["version"] == 2
    (listed,) = facts("schema", "list")
    assert (listed["subject"], listed["latestVersion"]) == ("u-value", 2)
    assert facts("schema", "show", "u-value", "--version", 1)["schema"] == USER
    assert '+      "name": "b",' in facts("schema", "diff", "u-value", 1, 2)["diff"]
    assert facts("schema", "delete", "u-value", "--version", 1, "--force")["deleted"] == [1]
    assert facts("schema", "delete", "u-value", "--force")["deleted"] == [2]
    assert facts("schema", "list") == []


@pytest.mark.usefixtures("server")
def test_what_is_missing_is_said(tmp_path: Path):
    run("schema", "show", "nothing", code=4)
    run("schema", "register", "u-value", tmp_path / "none.avsc", code=2)
    unknown = tmp_path / "schema.txt"
    unknown.write_text(USER)
    assert "say --type" in run("schema", "register", "u-value", unknown, code=2).stderr

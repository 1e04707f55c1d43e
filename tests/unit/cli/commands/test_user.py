"""`goqueue user`: users are made, shown, changed and deleted."""

import pytest

from tests.unit.cli.invocation import facts, run

AS_BOB = {"GOQUEUE_USER": "bob", "GOQUEUE_PASSWORD": "first"}
NEW = ("--password-file", "-")


@pytest.mark.usefixtures("guarded")
def test_a_user_is_made_shown_changed_and_deleted():
    made = facts("user", "create", "bob", "--role", "producer", *NEW, input="first\n")
    assert (made["name"], made["roles"]) == ("bob", ["producer"])
    assert "first" not in str(made)
    run("user", "create", "bob", *NEW, input="second\n", code=5)
    facts("topic", "create", "of-bob", env=AS_BOB)  # with the first password

    assert facts("user", "set-roles", "bob", "--role", "readonly")["roles"] == ["readonly"]
    refused = run("topic", "create", "not-of-bob", env=AS_BOB, code=6)
    assert "User:bob lacks CREATE on topic 'not-of-bob'" in refused.stderr
    assert facts("user", "set-roles", "bob", "--none")["roles"] == []

    facts("user", "set-password", "bob", *NEW, input="second\n")
    wrong = run("topic", "list", env=AS_BOB, code=6)
    assert "goqueue login" in wrong.stderr
    assert "first" not in wrong.output

    facts("acl", "add", "--principal", "bob", "--operation", "read", "--topic", "t")
    shown = facts("user", "show", "bob")
    assert shown["acls"][0]["principal"] == "User:bob"
    assert "allow read on topic t" in run("user", "show", "bob", "-o", "table", code=0).stdout
    assert "bob" in [each["name"] for each in facts("user", "list")]
    assert "SCRAM-SHA-512" in run("user", "list", "-o", "table", code=0).stdout
    assert facts("user", "delete", "bob", "--force")["deleted"]
    run("user", "show", "bob", code=4)


@pytest.mark.usefixtures("guarded")
def test_what_makes_no_sense_is_refused():
    run("user", "create", "eve", "--role", "king", *NEW, input="p\n", code=2)
    assert "--password-file" in run("user", "create", "eve", code=2).stderr
    run("user", "create", "eve", "--no-password", code=2)
    run("user", "create", "eve", "--no-password", "--role", "readonly", *NEW, code=2)
    run("user", "set-roles", "root", code=2)
    run("user", "set-roles", "nobody", "--none", code=4)
    run("user", "set-password", "nobody", *NEW, input="p\n", code=4)
    made = facts("user", "create", "by-certificate", "--no-password", "--role", "readonly")
    assert (made["roles"], made["mechanisms"]) == (["readonly"], [])

"""Subjects, versions and ids; what is deleted; and that a replay gives the same."""

from typing import Any

import pytest

from goqueue.schemas import (
    GLOBAL,
    LATEST,
    Level,
    Mode,
    Reference,
    RegistryMachine,
    SchemaText,
    identity_of,
)
from goqueue.schemas.errors import (
    CompatibilityNotConfigured,
    InvalidSchema,
    OperationNotPermitted,
    ReferenceExists,
    RegistryChanged,
    SchemaNotFound,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)


class Registry:
    """A machine whose decisions are applied, through their bytes."""

    def __init__(self) -> None:
        self.machine = RegistryMachine()
        self.written: list[bytes] = []

    def do(self, decision: Any) -> Any:
        for record in decision.records:
            self.written.append(self.machine.encode(record))
            self.machine.apply(self.machine.decode(self.written[-1]))
        return decision.reply

    def register(self, subject: str, text: str, **more: Any) -> tuple[int, int]:
        references = more.pop("references", ())
        schema = SchemaText(text, references=references)
        identity = identity_of(schema)
        more.setdefault("compared_with", self.machine.latest_version(subject))
        found = self.do(
            self.machine.register(subject, schema, identity=identity, shape=identity, **more)
        )
        return found.version, found.stored.schema_id

    def replayed(self) -> RegistryMachine:
        machine = RegistryMachine()
        for each in self.written:
            machine.apply(machine.decode(each))
        return machine


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_versions_and_ids_rise(registry: Registry):
    assert registry.register("a", "1") == (1, 1)
    assert registry.register("a", "2") == (2, 2)
    assert registry.register("b", "3") == (1, 3)
    assert registry.machine.versions("a") == [1, 2]
    assert registry.machine.version("a", LATEST).stored.schema.text == "2"


def test_the_same_schema_is_the_same_version_and_has_one_id(registry: Registry):
    assert registry.register("a", "1") == registry.register("a", "1") == (1, 1)
    assert registry.register("b", "1") == (1, 1)
    assert [each.subject for each in registry.machine.uses(1)] == ["a", "b"]


def test_a_decision_about_versions_that_changed_is_made_again(registry: Registry):
    registry.register("a", "1")
    registry.register("a", "2")
    with pytest.raises(RegistryChanged):
        registry.register("a", "3", compared_with=1)


def test_ids_and_versions_are_never_used_again(registry: Registry):
    registry.register("a", "1")
    registry.do(registry.machine.delete_subject("a"))
    registry.do(registry.machine.delete_subject("a", permanent=True))
    with pytest.raises(SchemaNotFound):
        registry.machine.schema(1)
    assert registry.register("a", "2") == (2, 2)
    assert registry.replayed().versions("a") == [2]


def test_what_is_softly_deleted_is_not_listed_and_its_id_answers(registry: Registry):
    registry.register("a", "1")
    assert registry.do(registry.machine.delete_subject("a")) == [1]
    assert registry.machine.subjects() == []
    assert registry.machine.subjects(deleted=True) == ["a"]
    assert registry.machine.versions("a", deleted=True) == [1]
    assert registry.machine.schema(1).schema.text == "1"
    with pytest.raises(SubjectNotFound):
        registry.machine.versions("a")
    assert registry.register("a", "1") == (2, 1)


def test_deletes_have_their_order(registry: Registry):
    registry.register("a", "1")
    registry.register("a", "2")
    with pytest.raises(SubjectNotSoftDeleted):
        registry.machine.delete_subject("a", permanent=True)
    with pytest.raises(VersionNotSoftDeleted):
        registry.machine.delete_version("a", 1, permanent=True)
    assert registry.do(registry.machine.delete_version("a", 1)) == 1
    with pytest.raises(VersionSoftDeleted):
        registry.machine.delete_version("a", 1)
    assert registry.do(registry.machine.delete_version("a", 1, permanent=True)) == 1
    with pytest.raises(VersionNotFound):
        registry.machine.delete_version("a", 1)
    registry.do(registry.machine.delete_version("a", LATEST))
    with pytest.raises(SubjectSoftDeleted):
        registry.machine.delete_subject("a")
    with pytest.raises(SubjectNotFound):
        registry.machine.delete_subject("none")


def test_references_hold_what_they_refer_to(registry: Registry):
    registry.register("a", "1")
    registry.register("b", "2", references=(Reference("A", "a", 1),))
    registry.register("c", "3", references=(Reference("B", "b", 1),))
    resolved = registry.machine.resolve((Reference("B", "b", LATEST),))
    assert list(resolved) == ["A", "B"]
    with pytest.raises(ReferenceExists):
        registry.machine.delete_subject("a")
    with pytest.raises(ReferenceExists):
        registry.machine.delete_version("b", 1)
    with pytest.raises(InvalidSchema, match="reference 'X'"):
        registry.machine.resolve((Reference("X", "x", 1),))
    assert registry.machine.referrers("a", 1) == [2]


def test_levels(registry: Registry):
    machine = registry.machine
    assert machine.level("a") is Level.BACKWARD
    with pytest.raises(CompatibilityNotConfigured):
        machine.level("a", default_to_global=False)
    registry.do(machine.set_level(GLOBAL, Level.NONE))
    registry.do(machine.set_level("a", Level.FULL_TRANSITIVE))
    assert (machine.level("a"), machine.level("b")) == (Level.FULL_TRANSITIVE, Level.NONE)
    for text in "123":
        registry.register("a", text)
    assert [each.version for each in machine.former("a", Level.FULL_TRANSITIVE)] == [3, 2, 1]
    assert [each.version for each in machine.former("a", Level.FULL)] == [3]
    assert registry.do(machine.unset_level("a")) is Level.FULL_TRANSITIVE
    assert machine.level("a") is Level.NONE


def test_a_deleted_subject_has_no_level_left(registry: Registry):
    registry.register("a", "1")
    registry.do(registry.machine.set_level("a", Level.FULL))
    registry.do(registry.machine.delete_subject("a"))
    assert registry.machine.level("a") is Level.BACKWARD


def test_modes(registry: Registry):
    machine = registry.machine
    registry.register("a", "1")
    registry.do(machine.set_mode("a", Mode.READONLY))
    for refused in (lambda: registry.register("a", "2"), lambda: machine.delete_subject("a")):
        with pytest.raises(OperationNotPermitted):
            refused()
    assert registry.register("a", "1") == (1, 1)  # it is there
    with pytest.raises(OperationNotPermitted, match="force"):
        machine.set_mode(GLOBAL, Mode.IMPORT)
    with pytest.raises(OperationNotPermitted, match="not in mode IMPORT"):
        registry.register("b", "2", schema_id=70)
    registry.do(machine.set_mode("b", Mode.IMPORT))
    assert registry.register("b", "2", schema_id=70, version=5) == (5, 70)
    with pytest.raises(OperationNotPermitted, match="another schema's"):
        registry.register("b", "3", schema_id=70)
    registry.do(machine.unset_mode("b"))
    assert registry.register("b", "4") == (6, 71)


def test_a_snapshot_and_a_replay_give_the_same_state(registry: Registry):
    for subject, text in (("a", "1"), ("a", "2"), ("b", "1"), ("c", "3")):
        registry.register(subject, text)
    registry.do(registry.machine.delete_version("a", 1))
    registry.do(registry.machine.delete_subject("c"))
    registry.do(registry.machine.delete_subject("c", permanent=True))
    registry.do(registry.machine.set_level("a", Level.FORWARD))
    registry.do(registry.machine.set_mode("b", Mode.READONLY))
    restored = RegistryMachine()
    for record in registry.machine.snapshot():
        restored.apply(restored.decode(restored.encode(record)))
    for machine in (restored, registry.replayed()):
        assert vars(machine) == vars(registry.machine)


def test_a_subject_with_a_level_and_no_version_is_not_found(registry: Registry):
    registry.do(registry.machine.set_level("a", Level.FULL))
    with pytest.raises(SubjectNotFound):
        registry.machine.version("a", LATEST)

"""Whether a Protobuf reader understands what was written with another schema: Confluent's rules.

Fields are known by their number.  One may come and go; it may not change to a type with other
bytes, move into a oneof that has others, or become required.
"""

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from goqueue.schemas.schema import Incompatibility

Kind = FieldDescriptor
# Scalars whose bytes can be read as each other's.
_SCALARS: Final = {
    Kind.TYPE_INT32: "number",
    Kind.TYPE_INT64: "number",
    Kind.TYPE_UINT32: "number",
    Kind.TYPE_UINT64: "number",
    Kind.TYPE_BOOL: "number",
    Kind.TYPE_ENUM: "number",
    Kind.TYPE_SINT32: "signed number",
    Kind.TYPE_SINT64: "signed number",
    Kind.TYPE_STRING: "string or bytes",
    Kind.TYPE_BYTES: "string or bytes",
    Kind.TYPE_FIXED32: "fixed32",
    Kind.TYPE_SFIXED32: "fixed32",
    Kind.TYPE_FIXED64: "fixed64",
    Kind.TYPE_SFIXED64: "fixed64",
    Kind.TYPE_FLOAT: "float",
    Kind.TYPE_DOUBLE: "double",
}

Found = list[Incompatibility]


def unreadable(old: FileDescriptor, new: FileDescriptor) -> Found:
    found: Found = []
    if old.package != new.package:
        text = f"the package was {old.package!r}, now {new.package!r}"
        found.append(Incompatibility("PACKAGE_CHANGED", "#/", text))
    return found + _Comparison().compare_all(
        dict(old.message_types_by_name), dict(new.message_types_by_name), "#"
    )


class _Comparison:
    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def compare_all(
        self, old: dict[str, Descriptor], new: dict[str, Descriptor], path: str
    ) -> Found:
        found: Found = []
        for name, message in old.items():
            if message.GetOptions().map_entry:
                continue
            if name not in new:
                text = f"message {name!r} was removed"
                found.append(Incompatibility("MESSAGE_REMOVED", f"{path}/{name}", text))
            else:
                found += self.compare(message, new[name], f"{path}/{name}")
        return found

    def compare(self, old: Descriptor, new: Descriptor, path: str) -> Found:
        pair = old.full_name, new.full_name
        if pair in self._seen:
            return []
        self._seen.add(pair)
        nested = dict(old.nested_types_by_name), dict(new.nested_types_by_name)
        found = self.compare_all(*nested, path)
        before, after = dict(old.fields_by_number), dict(new.fields_by_number)
        for number in sorted({*before, *after}):
            place = f"{path}/{number}"
            if number not in after:
                found += _compare_removed(before[number], new, place)
            elif number not in before:
                found += _compare_added(after[number], place)
            else:
                found += self._compare_field(before[number], after[number], place)
        return found + _compare_oneofs(old, new, path)

    def _compare_field(self, old: FieldDescriptor, new: FieldDescriptor, path: str) -> Found:
        found = _compare_labels(old, new, path)
        kinds = [_kind(each) for each in (old, new)]
        if kinds[0] != kinds[1]:
            text = f"field {new.name!r} was a {kinds[0]}, now a {kinds[1]}"
            return [*found, Incompatibility("FIELD_KIND_CHANGED", path, text)]
        if kinds[0] == "scalar":
            scalars = _SCALARS[old.type], _SCALARS[new.type]
            if scalars[0] != scalars[1]:
                text = f"field {new.name!r} was a {scalars[0]}, now a {scalars[1]}"
                found.append(Incompatibility("FIELD_SCALAR_KIND_CHANGED", path, text))
        elif kinds[0] == "map":
            for name in ("key", "value"):
                before, after = (_message(each).fields_by_name[name] for each in (old, new))
                found += self._compare_field(before, after, f"{path}/{name}")
        else:
            found += self._compare_messages(old, new, path)
        return found

    def _compare_messages(self, old: FieldDescriptor, new: FieldDescriptor, path: str) -> Found:
        before, after = (_local_name(_message(each)) for each in (old, new))
        if before != after:
            text = f"field {new.name!r} was a {before}, now a {after}"
            return [Incompatibility("FIELD_NAMED_TYPE_CHANGED", path, text)]
        return self.compare(_message(old), _message(new), path)


def _compare_removed(field: FieldDescriptor, new: Descriptor, path: str) -> Found:
    found: Found = []
    if field.is_required:
        text = f"required field {field.name!r} was removed"
        found.append(Incompatibility("REQUIRED_FIELD_REMOVED", path, text))
    oneof = _oneof(field)
    if oneof is not None and _goes_on(field, new):
        text = f"field {field.name!r} was removed from oneof {oneof!r}"
        found.append(Incompatibility("ONEOF_FIELD_REMOVED", path, text))
    return found


def _goes_on(field: FieldDescriptor, new: Descriptor) -> bool:
    """Whether the oneof of a field that is gone is still there, be it under another name."""
    old = field.containing_oneof
    assert old is not None, "the field is of a oneof"
    if any(each.name == old.name for each in new.oneofs):
        return True
    left = (new.fields_by_number.get(each.number) for each in old.fields)
    return any(each is not None and _oneof(each) is not None for each in left)


def _compare_added(field: FieldDescriptor, path: str) -> Found:
    if not field.is_required:
        return []
    text = f"required field {field.name!r} was added, and old data has none"
    return [Incompatibility("REQUIRED_FIELD_ADDED", path, text)]


def _compare_labels(old: FieldDescriptor, new: FieldDescriptor, path: str) -> Found:
    if new.is_required and not old.is_required:
        text = f"field {new.name!r} is required now"
        return [Incompatibility("REQUIRED_FIELD_ADDED", path, text)]
    if old.is_required and not new.is_required:
        text = f"field {new.name!r} was required; readers of the old schema demand it"
        return [Incompatibility("REQUIRED_FIELD_REMOVED", path, text)]
    scalars = _kind(old) == _kind(new) == "scalar"
    if old.is_repeated != new.is_repeated and scalars:
        if _SCALARS[new.type] == "string or bytes":
            return []
        text = f"field {new.name!r} is repeated in one schema and not in the other"
        return [Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path, text)]
    return []


def _compare_oneofs(old: Descriptor, new: Descriptor, path: str) -> Found:
    """Two fields that both could be set before: a reader keeps one of them now."""
    found: Found = []
    before = dict(old.fields_by_number)
    for oneof in new.oneofs:
        if all(_oneof(each) is None for each in oneof.fields):
            continue  # of a proto3 `optional` field
        known = [each for each in oneof.fields if each.number in before]
        moved = [each for each in known if _oneof(before[each.number]) is None]
        places = {_oneof(before[each.number]) for each in known} - {None}
        if len(places) > 1:
            text = (
                f"oneof {oneof.name!r} has fields of oneofs {', '.join(sorted(map(str, places)))}"
            )
            rule = "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(Incompatibility(rule, f"{path}/{oneof.name}", text))
        elif moved and len(moved) < len(known):
            text = f"field {moved[0].name!r} was moved to oneof {oneof.name!r}"
            rule = "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(Incompatibility(rule, f"{path}/{oneof.name}", text))
        elif len(moved) > 1:
            text = f"{len(moved)} fields were moved to oneof {oneof.name!r}"
            rule = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
            found.append(Incompatibility(rule, f"{path}/{oneof.name}", text))
    return found


def _oneof(field: FieldDescriptor) -> str | None:
    """The oneof that a person wrote it in."""
    oneof = field.containing_oneof
    if oneof is None:
        return None
    is_synthetic = len(oneof.fields) == 1 and oneof.name == f"_{field.name}"
    return None if is_synthetic else oneof.name


def _kind(field: FieldDescriptor) -> str:
    if field.type not in (Kind.TYPE_MESSAGE, Kind.TYPE_GROUP):
        return "scalar"
    return "map" if _message(field).GetOptions().map_entry else "message"


def _message(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None
    return field.message_type


def _local_name(message: Descriptor) -> str:
    package = message.file.package
    return message.full_name.removeprefix(f"{package}.") if package else message.full_name

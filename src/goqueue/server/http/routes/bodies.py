"""Bodies of answers that repeat what the broker says."""

from typing import Any, TypeVar

import msgspec

Body = TypeVar("Body", bound=msgspec.Struct)


def body_of(kind: type[Body], source: object, **others: Any) -> Body:
    """A body with the fields of `source` that have its names, and `others`."""
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**{name: getattr(source, name) for name in names}, **others)

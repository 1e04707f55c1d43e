"""The registry's state machine: subjects, versions, ids, levels and modes."""

from goqueue.schemas.registry.machine import RegistryMachine
from goqueue.schemas.registry.records import RegistryRecord
from goqueue.schemas.registry.state import GLOBAL, LATEST
from goqueue.schemas.registry.subjects import (
    Mode,
    StoredSchema,
    SubjectVersion,
    context_of,
    context_prefix,
    read_mode,
    subject_name,
)

__all__ = [
    "GLOBAL",
    "LATEST",
    "Mode",
    "RegistryMachine",
    "RegistryRecord",
    "StoredSchema",
    "SubjectVersion",
    "context_of",
    "context_prefix",
    "read_mode",
    "subject_name",
]

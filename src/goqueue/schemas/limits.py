"""How large and how nested schemas and payloads may be.

A schema comes from anybody who may write; these bounds keep what is done with one, parsing,
comparing, validating, within milliseconds.  Each refusal names its bound.
"""

from typing import Final

SCHEMA_BYTES_MAX: Final = 512 * 1024
SCHEMA_DEPTH_MAX: Final = 64
SCHEMA_NODES_MAX: Final = 20_000  # values in a JSON document
REFERENCES_MAX: Final = 200  # of a schema, those of its references among them
COMPARISONS_MAX: Final = 50_000  # of pairs of subschemas, in one check
PAYLOAD_DEPTH_MAX: Final = 100
PAYLOAD_BYTES_MAX: Final = 4 * 1024 * 1024  # of a payload that is validated
PAYLOAD_STEPS_MAX: Final = 5_000_000  # values in one Avro payload
STEPS_FREE: Final = 20_000  # of them, in any payload
STEPS_A_BYTE: Final = 20  # and so many more for each of its bytes
WORK_MAX: Final = 1_000_000  # looks of a JSON Schema at the values of one payload
REASON_WORK_MAX: Final = 2_000  # more looks than that, and a refusal does not say where
BACKTRACKS_MAX: Final = 100_000  # of a pattern, for one string
SUBJECT_LENGTH_MAX: Final = 512

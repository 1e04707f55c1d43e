"""Operations that the caller may do: all of them, since there are no permissions yet.

The protocol has a bit for each operation.  The sets are Apache Kafka's without an authorizer; tools
grey out what is not in them.
"""

import enum
from typing import Final


class Operation(enum.IntEnum):
    """The protocol's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(2**31)
GROUP: Final = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
TOPIC: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER: Final = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


def operations_if(asked: bool, operations: int) -> int:
    return operations if asked else NOT_ASKED

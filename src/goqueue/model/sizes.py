"""Sizes as people write them: `10MB`, `1.5 GiB`, `4096`."""

import re
from typing import Final

_UNITS: Final = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000 ** (power + 1) for power, prefix in enumerate("KMGT")},
    **{f"{prefix}IB": 1024 ** (power + 1) for power, prefix in enumerate("KMGT")},
}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_size(text: str) -> int:
    """In bytes; raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found.group(2).upper())
    if found is None or unit is None:
        raise ValueError(f"{text!r} is not a size: write bytes, or as in 10MB, 1.5GiB")
    return int(float(found.group(1)) * unit)

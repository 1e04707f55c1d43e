"""The effective configuration as TOML, each value with the place it came from.

It can be saved and given back with `--config`.
"""

from typing import Final

import msgspec

from goqueue.cli.configuration import Given, Merged, table_of

COMMENT_COLUMN: Final = 44


def as_toml(merged: Merged) -> str:
    tables: dict[str, list[str]] = {"": []}
    for path, given in merged.given.items():
        table = table_of(path)
        tables.setdefault(table, []).append(_line(path.removeprefix(f"{table}."), given))
    parts = [
        "\n".join([f"[{table}]", *lines] if table else lines) for table, lines in tables.items()
    ]
    return "\n\n".join(parts) + "\n"


def _line(name: str, given: Given) -> str:
    key = f'"{name}"' if "." in name else name
    # What JSON calls a text, a number and a truth, TOML does too.
    value = msgspec.json.encode(given.value).decode()
    return f"{key} = {value}".ljust(COMMENT_COLUMN) + f"  # {given.origin}"

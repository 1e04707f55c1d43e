"""Messages as bytes on standard output: raw, JSON lines, columns, YAML, or a template.

A template is in Python's format style, with the names below and nothing else: no attributes, no
indexes.  Bytes that are not UTF-8 come out as they went in.
"""

import base64
import string
from collections.abc import Callable
from typing import Any, Final

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.cli.moments import as_text
from goqueue.client.http.messages import BASE64, Received

Render = Callable[[Received], bytes]

FIELDS: Final[dict[str, Callable[[Received], Any]]] = {
    "topic": lambda message: message.topic,
    "partition": lambda message: message.partition,
    "offset": lambda message: message.offset,
    "timestamp": lambda message: as_text(message.timestamp),
    "timestamp_ms": lambda message: message.timestamp,
    "key": lambda message: _loose(message.key),
    "value": lambda message: _loose(message.value),
    "headers": lambda message: ",".join(
        f"{name}={_loose(value)}" for name, value in message.headers
    ),
}
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
COLUMNS: Final = "{partition:>9}  {offset:>10}  {timestamp:<24}  {key:<16}  {value}"


def renderer(form: str) -> Render:
    """For `raw`, `json`, `yaml`, `table`, or a template."""
    match form:
        case "raw":
            return lambda message: (message.value or b"") + b"\n"
        case "json":
            return lambda message: msgspec.json.encode(as_json(message)) + b"\n"
        case "yaml":
            return lambda message: b"---\n" + msgspec.yaml.encode(as_json(message))
        case "table":
            return _as_columns
        case template if "{" in template:
            return _template(template)
        case _:
            raise UsageFailure(
                f"--format {form}: must be raw, json, or a template such as '{{key}} {{value}}\\n'"
            )


# --- JSON -----------------------------------------------------------------------------------------


def as_json(message: Received) -> dict[str, Any]:
    """As the HTTP API writes it, so that `produce --format json` can read it."""
    payloads = (message.key, message.value, *(value for _, value in message.headers))
    is_text = all(_is_text(each) for each in payloads)
    write = _text if is_text else _base64
    body: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": as_text(message.timestamp) if message.timestamp >= 0 else None,
        "key": write(message.key),
        "value": write(message.value),
        "headers": [{"name": name, "value": write(value)} for name, value in message.headers],
    }
    return body if is_text else {**body, "encoding": BASE64}


def _is_text(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


# --- columns --------------------------------------------------------------------------------------


def heading() -> bytes:
    names = {name: name.upper() for name in FIELDS}
    return f"{COLUMNS.format(**names)}\n".encode()


def _as_columns(message: Received) -> bytes:
    """Control characters are shown, not obeyed."""
    facts = {name: field(message) for name, field in FIELDS.items()}
    facts["key"], facts["value"] = _show(message.key), _show(message.value)
    return f"{COLUMNS.format(**facts)}\n".encode()


def _show(data: bytes | None) -> str:
    if data is None:
        return "-"
    text = data.decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


# --- templates ------------------------------------------------------------------------------------


def _template(text: str) -> Render:
    text = unescape(text)
    wanted = _fields_of(text)

    def render(message: Received) -> bytes:
        facts = {name: FIELDS[name](message) for name in wanted}
        try:
            return text.format(**facts).encode(errors="surrogateescape")
        except (ValueError, TypeError) as error:
            raise UsageFailure(f"--format: {error}") from error

    return render


def _fields_of(text: str) -> set[str]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise UsageFailure(f"--format: {error}") from error
    names = {name for _, name, _, _ in parts if name is not None}
    nested = any("{" in (spec or "") for _, _, spec, _ in parts)
    unknown = sorted(names - FIELDS.keys())
    if unknown or nested:
        what = ", ".join(f"{{{name}}}" for name in unknown) or "a field inside a field"
        raise UsageFailure(f"--format: {what} is not known; there are {', '.join(FIELDS)}")
    return names


def unescape(text: str) -> str:
    r"""With `\n`, `\t`, `\r`, `\0` and `\\` as what they stand for."""
    head, *rest = text.split("\\")
    parts = [head]
    index = 0
    while index < len(rest):
        piece = rest[index]
        if piece:
            parts.append(ESCAPES.get(piece[0], "\\" + piece[0]) + piece[1:])
            index += 1
        else:  # two in a row stand for one; the text behind the second is plain
            parts.append("\\" + (rest[index + 1] if index + 1 < len(rest) else ""))
            index += 2
    return "".join(parts)


def _loose(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="surrogateescape")

"""The server's configuration, merged from four places and checked once.

    defaults < TOML file < GOQUEUE_… variables < flags

Each source is flatten to dotted paths (`kafka.listen`, `topics.settings.retention.ms`) and a
later one replaces an earlier one path by path.  Every value is checked on its own, so that all
problems are found in one go, and keeps its origin, so that each is reported with its place.
"""

import difflib
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.model.config import Config, flatten, problems_of
from goqueue.model.durations import parse_duration_ms

ENVIRONMENT_PREFIX: Final = "GOQUEUE_"
CONFIG_FILE_VARIABLE: Final = "GOQUEUE_SERVER_CONFIG"
OTHER_VARIABLES: Final = {
    CONFIG_FILE_VARIABLE: "the server's TOML file, as --config",
    "GOQUEUE_SERVER": "client: address of the server",
    "GOQUEUE_CONTEXT": "client: name of the context to use",
    "GOQUEUE_API_KEY": "client: key to authenticate with",
    "GOQUEUE_USER": "client: user to log in as, instead of a key",
    "GOQUEUE_PASSWORD": "client: password of GOQUEUE_USER",
    "GOQUEUE_CA_FILE": "client: certificates of the authority that signed the server's",
    "GOQUEUE_CERT_FILE": "client: certificate to log in with",
    "GOQUEUE_KEY_FILE": "client: private key of GOQUEUE_CERT_FILE",
    "GOQUEUE_TIMEOUT": "client: seconds a request may take",
    "GOQUEUE_OUTPUT": "client: table, json, yaml or auto",
    "GOQUEUE_CONFIG": "client: file of the contexts",
    "GOQUEUE_COMPILE": "install: 0 leaves the hot modules interpreted",
    "GOQUEUE_SIM_SEED": "tests: the one seed to run",
    "GOQUEUE_SIM_SEEDS": "tests: how many seeds to run",
}
# A Kubernetes service called `goqueue…` puts its address into every container beside it.
SERVICE_LINK: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$")
DEFAULT_ORIGIN: Final = "default"
FLAGS: Final = {
    "data_dir": "--data-dir",
    "kafka.listen": "--kafka",
    "kafka.advertised": "--advertised",
    "http.listen": "--http",
    "insecure": "--insecure",
    "node_id": "--node-id",
    "topics.replication": "--replication",
    "cluster.listen": "--cluster-listen",
    "cluster.seeds": "--seeds",
    "cluster.rack": "--rack",
    "cluster.quorum": "--quorum",
    "log_level": "--log-level",
    "log_format": "--log-format",
}
NUMBER: Final = re.compile(r"-?[0-9.]+")
SIMILAR: Final = 0.75  # of difflib's ratio: close enough to be a slip of the fingers


class Given(msgspec.Struct, frozen=True):
    """One value and where it came from."""

    value: Any
    origin: str
    is_text: bool = False  # from a variable or flag: "42" may stand for 42


class Merged(msgspec.Struct, frozen=True):
    config: Config
    given: dict[str, Given]  # by dotted path, in the order of the settings
    warnings: list[str]


class ConfigurationProblems(Exception):
    """Everything that is wrong with what was given, at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(f"{n}. {text}" for n, text in enumerate(problems, start=1)))
        self.problems = problems


def merge(
    flags: Mapping[str, Any], environment: Mapping[str, str], config_file: Path | None = None
) -> Merged:
    """The configuration to run with; raises `ConfigurationProblems`.

    `flags` are by dotted path; those that are None were not given.
    """
    problems: list[str] = []
    warnings: list[str] = []
    given = _defaults()
    file = config_file or _file_from(environment)
    if file is not None:
        given |= _from_file(file, problems)
    given |= _from_environment(environment, problems, warnings)
    given |= _from_flags(flags, problems)
    return _merge_given(given, problems, warnings)


def from_tree(tree: Mapping[str, Any]) -> Config:
    """The configuration of a program that has its settings by section; raises
    `ConfigurationProblems`.
    """
    problems: list[str] = []
    given = _defaults() | _from_tree(tree, DEFAULT_ORIGIN, problems)
    return _merge_given(given, problems, []).config


def _merge_given(given: dict[str, Given], problems: list[str], warnings: list[str]) -> Merged:
    given = _check_types(given, problems)
    config = _build_config(given)
    problems.extend(_with_origin(text, given) for text in problems_of(config))
    if problems:
        raise ConfigurationProblems(problems)
    return Merged(config, given, warnings)


def variable_of(path: str) -> str:
    """The environment variable of a setting: `kafka.listen` is GOQUEUE_KAFKA_LISTEN."""
    return ENVIRONMENT_PREFIX + path.replace(".", "_").upper()


# --- the settings there are -----------------------------------------------------------------------


@functools.cache
def setting_types() -> Mapping[str, Any]:
    """The type of every setting by its dotted path."""
    return dict(_types_of(Config, ""))


def table_of(path: str) -> str:
    """The table that a setting stands in: `topics.settings` for `topics.settings.retention.ms`."""
    for table in _tables():
        if path.startswith(f"{table}."):
            return table
    return path.rpartition(".")[0]


def _types_of(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        if _is_section(field.type):
            yield from _types_of(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field.type


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@functools.cache
def _tables() -> frozenset[str]:
    """Settings that are themselves tables of names and texts."""
    return frozenset(path for path, kind in setting_types().items() if kind == dict[str, str])


@functools.cache
def _lists() -> frozenset[str]:
    """Settings that are lists of texts; with commas between them in a variable or flag."""
    return frozenset(path for path, kind in setting_types().items() if kind == list[str])


def _is_known(path: str) -> bool:
    return path in setting_types() or any(path.startswith(f"{table}.") for table in _tables())


def _defaults() -> dict[str, Given]:
    tree = msgspec.to_builtins(Config())
    return {path: Given(value, DEFAULT_ORIGIN) for path, value in flatten(tree)}


# --- the sources ----------------------------------------------------------------------------------


def _file_from(environment: Mapping[str, str]) -> Path | None:
    name = environment.get(CONFIG_FILE_VARIABLE)
    return Path(name) if name else None


def _from_file(file: Path, problems: list[str]) -> dict[str, Given]:
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problems.append(f"{file}: cannot be read: {_reason(error)}")
        return {}
    return _from_tree(tree, str(file), problems)


def _from_tree(tree: Mapping[str, Any], origin: str, problems: list[str]) -> dict[str, Given]:
    where = "" if origin == DEFAULT_ORIGIN else f"{origin}: "
    found = {}
    for path, value in flatten(tree):
        if not _is_known(path):
            problems.append(f"{where}there is no setting {path!r}{_hint(path, setting_types())}")
        elif _is_scalar(value) or path in _lists():
            found[path] = Given(_scalar(path, value), origin)
        else:
            problems.append(f"{where}{path}: {value!r} is not a text, number, true or false")
    return found


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _scalar(path: str, value: Any) -> Any:
    """As it is; in a table of texts, a number or a truth may be written without quotes."""
    if path in setting_types() or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_environment(
    environment: Mapping[str, str], problems: list[str], warnings: list[str]
) -> dict[str, Given]:
    paths = {variable_of(path): path for path in setting_types()}
    found: dict[str, Given] = {}
    for name in sorted(environment):
        if path := paths.get(name):
            found |= _from_text(path, environment[name], name, problems)
        elif name.startswith(ENVIRONMENT_PREFIX) and not _is_of_others(name):
            _complain(name, paths, problems, warnings)
    return found


def _is_of_others(name: str) -> bool:
    return name in OTHER_VARIABLES or SERVICE_LINK.search(name) is not None


def _complain(name: str, known: Iterable[str], problems: list[str], warnings: list[str]) -> None:
    """A slip of the fingers must not start a server with the wrong settings; a stranger may."""
    text = f"{name}: GoQueue has no such variable"
    if hint := _hint(name, known, shared=ENVIRONMENT_PREFIX):
        problems.append(text + hint)
    else:
        warnings.append(text + ", it is ignored")


def _from_flags(flags: Mapping[str, Any], problems: list[str]) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for path, value in flags.items():
        if value is None:
            continue
        if not _is_known(path):
            problems.append(f"--set: there is no setting {path!r}{_hint(path, setting_types())}")
        elif isinstance(value, str):
            found |= _from_text(path, value, FLAGS.get(path, "--set"), problems)
        else:
            found[path] = Given(value, FLAGS.get(path, "--set"))
    return found


def _from_text(path: str, text: str, origin: str, problems: list[str]) -> dict[str, Given]:
    if path in _lists():
        entries = [entry.strip() for entry in text.split(",")]
        return {path: Given(list(filter(None, entries)), origin)}
    if path not in _tables():
        return {path: Given(text, origin, is_text=True)}
    try:
        table = _table_from(text)
    except ValueError as error:
        problems.append(f"{origin}: {error}")
        return {}
    return {f"{path}.{name}": Given(value, origin) for name, value in table.items()}


def _table_from(text: str) -> dict[str, str]:
    """`name=value;name=value`, or a JSON object.  Not commas: `cleanup.policy` has them."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, str], strict=False)
        except msgspec.DecodeError as error:
            raise ValueError(f"{error}: write name=value;name=value or a JSON object") from error
    entries = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, sign, value = entry.partition("=")
        if not sign:
            raise ValueError(f"{entry!r} has no `=`: write name=value;name=value")
        entries[name.strip()] = value.strip()
    return entries


def _hint(name: str, known: Iterable[str], shared: str = "") -> str:
    short = {each.removeprefix(shared): each for each in known}
    close = difflib.get_close_matches(name.removeprefix(shared), short, n=1, cutoff=SIMILAR)
    return f"; did you mean {short[close[0]]}?" if close else ""


# --- checking -------------------------------------------------------------------------------------


def _check_types(given: Mapping[str, Given], problems: list[str]) -> dict[str, Given]:
    """Each value as its type; one that does not fit is reported and left out."""
    types = setting_types()
    checked = {}
    for path, each in given.items():
        try:
            found = _duration(path, each.value)
            value = msgspec.convert(found, types.get(path, str), strict=not each.is_text)
        except ValueError as error:  # msgspec's are such, too
            problems.append(f"{path}: {_lower_first(str(error))}{_place(each)}")
        else:
            checked[path] = Given(value, each.origin)
    return checked


def _duration(path: str, value: Any) -> Any:
    """A setting in milliseconds or seconds may be written as `30s`."""
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return value
    if path in setting_types() and path.endswith("_ms"):
        return parse_duration_ms(value)
    if path in setting_types() and path.endswith("_seconds"):
        seconds = parse_duration_ms(value, plain="s") / 1000
        return int(seconds) if seconds.is_integer() else seconds
    return value


def _build_config(given: Mapping[str, Given]) -> Config:
    tree: dict[str, Any] = {}
    for path, each in given.items():
        table = table_of(path)
        branch = tree
        for name in filter(None, table.split(".")):
            branch = branch.setdefault(name, {})
        branch[path.removeprefix(f"{table}.")] = each.value
    return msgspec.convert(tree, Config)


def _with_origin(problem: str, given: Mapping[str, Given]) -> str:
    each = given.get(problem.partition(":")[0])
    return problem + (_place(each) if each else "")


def _place(each: Given) -> str:
    return "" if each.origin == DEFAULT_ORIGIN else f" (from {each.origin})"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

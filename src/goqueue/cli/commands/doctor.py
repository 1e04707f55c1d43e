"""`goqueue doctor`: examine a running server, or a stopped one's data directory, and repair it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.failures import Failure
from goqueue.cli.session import Session
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.broker.doctor.examination import Examination, Finding
    from goqueue.model.config import Config

DESCRIPTORS_BESIDE: Final = 1_024  # for connections, beside storage.open_files_max

app = typer.Typer(add_completion=False)


@command(app)
def doctor(
    session: Session,
    data_dir: Annotated[
        Path | None,
        option("Examine this data directory. Its server must be stopped.", metavar="DIR"),
    ] = None,
    repair: Annotated[
        bool, option("Repair what can be repaired. Damaged files are kept in DIR/damaged.")
    ] = False,
    config: Annotated[
        Path | None, option("The server's TOML file. \\[GOQUEUE_SERVER_CONFIG]", metavar="FILE")
    ] = None,
) -> None:
    """Check a running server or a data directory, and repair what can be repaired.

    With --data-dir, every batch of every log is verified and every record of the internal logs is
    decoded. Without it, the running server is asked. The exit code is 1 if a problem remains.
    """
    if data_dir is None:
        if repair or config is not None:
            raise Failure("--repair and --config need --data-dir, and a stopped server")
        found = _ask(session)
    else:
        found = _examine(_config(data_dir, config), repair=repair)
    _show(found)
    if found["status"] == "problem":
        raise typer.Exit(1)


# --- a stopped server -----------------------------------------------------------------------------


def _config(data_dir: Path, file: Path | None) -> "Config":
    from goqueue.cli.configuration import ConfigurationProblems, merge

    try:
        return merge({"data_dir": str(data_dir)}, os.environ, file).config
    except ConfigurationProblems as error:
        raise Failure(f"the server's configuration has problems\n{error}") from error


def _examine(config: "Config", *, repair: bool) -> dict[str, Any]:
    import base64
    import time
    from datetime import UTC, datetime

    from goqueue.broker.doctor.examination import examine
    from goqueue.cli.progress import reading
    from goqueue.model.ids import Timestamp
    from goqueue.runtime import real_environment
    from goqueue.runtime.lock import DirectoryLock

    if not Path(config.data_dir, "logs").is_dir():
        raise Failure(f"{config.data_dir} is no data directory: there is no {config.data_dir}/logs")
    lock = DirectoryLock(config.data_dir)
    disk = real_environment(config.storage.open_files_max).disk
    aside = f"{config.data_dir}/damaged/{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        findings = list(_machine_findings(config))
        with reading(_log_bytes(config.data_dir)) as on_bytes:
            examined = examine(
                disk,
                config,
                Timestamp(time.time_ns() // 1_000_000),
                repairs=repair,
                aside=aside,
                cluster_id=base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("="),
                on_bytes=on_bytes,
            )
    finally:
        disk.close()
        lock.release()
    examined.findings[:0] = findings
    return _result(config.data_dir, examined, aside if os.path.isdir(aside) else None)


def _result(data_dir: str, examined: "Examination", aside: str | None) -> dict[str, Any]:
    from goqueue.broker.doctor.examination import SEVERITY

    return {
        "status": max((each.status for each in examined.findings), key=lambda s: SEVERITY[s]),
        "data_dir": data_dir,
        "topics": examined.topics,
        "partitions": examined.partitions,
        "bytes": examined.bytes,
        "batches": examined.batches,
        "records": examined.records,
        "damaged_files": aside,
        "findings": [msgspec.to_builtins(each) for each in examined.findings],
    }


def _log_bytes(data_dir: str) -> int:
    return sum(path.stat().st_size for path in Path(data_dir, "logs").rglob("*.log"))


def _machine_findings(config: "Config") -> "list[Finding]":
    from goqueue.broker.doctor.examination import Finding

    found = [_room(config), _descriptors(config)]
    refused = _refused_files(config.data_dir)
    if refused:
        text = f"{len(refused)} files may not be read and written, the first is {refused[0]}"
        found.append(Finding("problem", "permissions", config.data_dir, f"{text}: check the owner"))
    else:
        text = "every file may be read and written"
        found.append(Finding("ok", "permissions", config.data_dir, text))
    return found


def _room(config: "Config") -> "Finding":
    from goqueue.broker.doctor.examination import Finding

    status = os.statvfs(config.data_dir)
    free, wanted = status.f_bavail * status.f_frsize, config.storage.free_bytes_min
    text = f"{free} bytes are free, storage.free_bytes_min is {wanted}"
    return Finding("ok" if free >= wanted else "problem", "disk", config.data_dir, text)


def _descriptors(config: "Config") -> "Finding":
    import resource

    from goqueue.broker.doctor.examination import Finding

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.storage.open_files_max + DESCRIPTORS_BESIDE
    if limit >= wanted:
        return Finding("ok", "descriptors", "ulimit -n", f"{limit} may be open")
    text = f"{limit} may be open here, the server wants {wanted}: raise it (LimitNOFILE, ulimit -n)"
    return Finding("warning", "descriptors", "ulimit -n", text)


def _refused_files(data_dir: str) -> list[str]:
    paths = [data_dir]
    for directory, names, files in os.walk(data_dir):
        paths += [os.path.join(directory, name) for name in (*names, *files)]
    return [path for path in paths if not os.access(path, os.R_OK | os.W_OK)]


# --- a running server -----------------------------------------------------------------------------


def _ask(session: Session) -> dict[str, Any]:
    from goqueue.client.http.calls import topics

    with session.client() as client:
        health = client.send(topics.health(verbose=True))
        version = client.version().version
    findings = [
        {"status": _status(text), "check": "readiness", "subject": name, "text": text}
        for name, text in (health.checks or {}).items()
    ]
    status = "ok"
    for each in findings:
        if each["status"] == "problem" or (each["status"] == "warning" and status == "ok"):
            status = each["status"]
    return {
        "status": status,
        "server": session.target().server,
        "version": version,
        "uptime_seconds": health.uptime_seconds,
        "findings": findings,
    }


def _status(text: str) -> str:
    if text == "pass":
        return "ok"
    return "warning" if text.startswith("warning: ") else "problem"


def _show(found: dict[str, Any]) -> None:
    from goqueue.cli.output import for_people, show

    findings = found["findings"]
    rows = [(each["status"], each["check"], each["subject"], _in_a_cell(each)) for each in findings]
    show(found, ("STATUS", "CHECK", "SUBJECT", "WHAT"), rows)
    if for_people():
        for each in findings:
            if each["status"] != "ok":
                sys.stdout.write(f"\n{each['status']}: {each['subject']}\n  {each['text']}\n")
        sys.stdout.write(f"\n{_summary(found)}\n")


def _in_a_cell(finding: dict[str, str]) -> str:
    """What is wrong takes more room than a table has, and is told below it."""
    return finding["text"] if finding["status"] == "ok" else "see below"


def _summary(found: dict[str, Any]) -> str:
    what = {
        "ok": "nothing is wrong",
        "repaired": "repaired: the server can be started",
        "warning": "nothing that keeps the server from working",
        "problem": "there are problems",
    }[found["status"]]
    if found.get("damaged_files"):
        what += f"; damaged files are in {found['damaged_files']}"
    elif found["status"] == "problem" and "data_dir" in found:
        what += "; --repair repairs the server's own logs, a backup brings messages back"
    return what

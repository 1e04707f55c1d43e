"""`goqueue server`: run a broker until it is told to stop."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.nodes import NODES_MAX
from goqueue.cli.session import Session
from goqueue.model.options import Pairs, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cli.configuration import Merged
    from goqueue.model.config import Config

# Compaction computes in a thread: this is how long it may keep the event loop waiting.
SWITCH_SECONDS: Final = 0.001

SETTINGS_OF_FLAGS: Final = {
    "data_dir": "data_dir",
    "kafka": "kafka.listen",
    "http": "http.listen",
    "advertised": "kafka.advertised",
    "insecure": "insecure",
    "auth": "auth.enabled",
    "init_admin": "auth.init_admin",
    "tls_cert": "tls.cert_file",
    "tls_key": "tls.key_file",
    "replication": "topics.replication",
    "node_id": "node_id",
    "cluster_listen": "cluster.listen",
    "seeds": "cluster.seeds",
    "rack": "cluster.rack",
    "quorum": "cluster.quorum",
    "log_level": "log_level",
    "log_format": "log_format",
}

app = typer.Typer(add_completion=False)


class ServerFlags(msgspec.Struct, frozen=True):
    """The settings that have a flag of their own; `--set` takes any."""

    data_dir: Annotated[str | None, option("Data directory. \\[./data]", metavar="DIR")] = None
    kafka: Annotated[
        str | None,
        option(
            "Address of the Kafka listener; port 0 picks a free port. \\[127.0.0.1:9092]",
            metavar="HOST:PORT",
        ),
    ] = None
    http: Annotated[
        str | None,
        option(
            "Address of the HTTP listener; port 0 picks a free port. \\[127.0.0.1:8080]",
            metavar="HOST:PORT",
        ),
    ] = None
    advertised: Annotated[
        str | None,
        option(
            "Address that Kafka clients connect to, if it differs from --kafka.",
            metavar="HOST:PORT",
        ),
    ] = None
    insecure: Annotated[
        bool | None,
        option("Allow listeners that other machines can reach, without authentication."),
    ] = None
    auth: Annotated[
        bool | None, option("Clients must log in, and may do only what they have permissions for.")
    ] = None
    init_admin: Annotated[
        str | None,
        option(
            "Create the first user, an administrator, and print its password once.", metavar="NAME"
        ),
    ] = None
    tls_cert: Annotated[
        str | None,
        option("Speak TLS: the file with the certificate and its chain (PEM).", metavar="FILE"),
    ] = None
    tls_key: Annotated[
        str | None,
        option(
            "Private key of the certificate (PEM), unless --tls-cert contains it.", metavar="FILE"
        ),
    ] = None
    replication: Annotated[
        int | None,
        option("Replicas of new topics. \\[3, or as many as there are machines]", min=1),
    ] = None
    node_id: Annotated[int | None, option("Number of this node in a cluster. \\[1]")] = None
    cluster_listen: Annotated[
        str | None,
        option(
            "Address of the listener for the other nodes of a cluster. \\[none; with --nodes"
            " 127.0.0.1:7000]",
            metavar="HOST:PORT",
        ),
    ] = None
    seeds: Annotated[
        str | None,
        option(
            "Join a cluster: the addresses of some of its nodes (their --cluster-listen).",
            metavar="HOST:PORT,…",
        ),
    ] = None
    rack: Annotated[
        str | None,
        option(
            "Where this node stands: a rack, a room, a zone. Replicas are put in different ones.",
            metavar="NAME",
        ),
    ] = None
    quorum: Annotated[
        str | None,
        option(
            "Where the metadata is kept: local, or etcd://HOST:PORT,HOST:PORT. \\[local]",
            metavar="QUORUM",
        ),
    ] = None
    log_level: Annotated[
        str | None, option("debug, info, warning or error. \\[info]", metavar="LEVEL")
    ] = None
    log_format: Annotated[
        str | None, option("console, json or auto. \\[auto]", metavar="FORMAT")
    ] = None

    def settings(self) -> dict[str, Any]:
        """By the names that they have in the configuration; None: not given."""
        return {path: getattr(self, name) for name, path in SETTINGS_OF_FLAGS.items()}


@command(app)
def server(
    session: Session,
    flags: ServerFlags,
    nodes: Annotated[
        int | None,
        option(
            "Run this many nodes on this machine, as one cluster, with their data in DATA_DIR/1, 2…"
            " and consecutive ports.",
            min=1,
            max=NODES_MAX,
        ),
    ] = None,
    config: Annotated[
        Path | None, option("TOML file with settings. \\[GOQUEUE_SERVER_CONFIG]", metavar="FILE")
    ] = None,
    settings: Annotated[
        Pairs | None, option("Any setting: storage.checkpoint_ms=5000. May be repeated.", "--set")
    ] = None,
    print_config: Annotated[
        bool, option("Show all settings with their sources, and exit.")
    ] = False,
) -> None:
    """Run a broker, or with --nodes a cluster of several.

    Flags override environment variables (`GOQUEUE_KAFKA_LISTEN`), which override the TOML file.
    `--print-config` shows the result.
    """
    given = flags.settings() | dict(settings or {})
    merged = _merge(given, config)
    if print_config:
        _print(merged, session)
    elif nodes is not None:
        _run_nodes(merged, nodes, given, config)
    else:
        _run(merged, lambda: _merge(given, config))


def _merge(flags: dict[str, Any], config: Path | None) -> "Merged":
    from goqueue.cli.configuration import ConfigurationProblems, merge

    try:
        merged = merge(flags, os.environ, config)
    except ConfigurationProblems as error:
        count = len(error.problems)
        problems = "a problem" if count == 1 else f"{count} problems"
        raise UsageFailure(f"{problems} in the configuration\n{error}") from error
    for warning in merged.warnings:
        typer.secho("warning: ", fg="yellow", nl=False, err=True)
        typer.echo(warning, err=True)
    return merged


def _print(merged: "Merged", session: Session) -> None:
    from goqueue.cli.output import show_value
    from goqueue.cli.toml import as_toml

    chosen = session.chosen_output()
    if chosen in ("json", "yaml"):
        show_value({path: {"value": g.value, "from": g.origin} for path, g in merged.given.items()})
    else:
        typer.echo(as_toml(merged), nl=False)


def _run_nodes(merged: "Merged", count: int, flags: dict[str, Any], file: Path | None) -> None:
    from goqueue.cli.logs import is_readable, set_up
    from goqueue.cli.nodes.plan import free_ports, plan_nodes
    from goqueue.cli.nodes.supervisor import supervise

    config = merged.config
    set_up(config.log_format, config.log_level)
    with free_ports() as take_port:
        plans = plan_nodes(config, count, take_port)
    supervise(
        plans,
        flags,
        file,
        is_readable=is_readable(config.log_format),
        stop_seconds=config.drain_ms / 1000 + config.shutdown_seconds,
    )


def _run(merged: "Merged", remerged: "Callable[[], Merged]") -> None:
    import asyncio

    import uvloop

    from goqueue.cli.logs import set_up
    from goqueue.cli.nodes.plan import refuse_directory_of_nodes
    from goqueue.cli.startup import pause_gc, skip_hypothesis, skip_pydantic
    from goqueue.runtime.heap import keep_freed_memory

    refuse_directory_of_nodes(Path(merged.config.data_dir))
    skip_hypothesis()
    skip_pydantic()
    pause_gc()
    keep_freed_memory()
    set_up(merged.config.log_format, merged.config.log_level)
    config = _fit(merged.config)
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(config, lambda: _fit(remerged().config)))
        except OSError as error:  # a port in use, a directory that may not be written
            raise Failure(f"the server cannot start: {error}") from error


def _fit(config: "Config") -> "Config":
    """The settings that the file handles of this process suffice for; tells what was lowered."""
    import structlog

    from goqueue.runtime.handles import raise_handle_limit
    from goqueue.server import fit_to_handles

    lowered, warnings = fit_to_handles(config, raise_handle_limit())
    for warning in warnings:
        structlog.get_logger("goqueue.server").warning("limit lowered", problem=warning)
    return lowered


async def _serve(config: "Config", read_config: "Callable[[], Config]") -> None:
    """Serve until SIGTERM or ctrl-c; a second one does not wait for what is still open."""
    import asyncio

    from goqueue.cli.logs import set_level
    from goqueue.cli.signals import Signals
    from goqueue.cli.startup import resume_gc
    from goqueue.runtime.service_manager import ServiceManager
    from goqueue.runtime.tasks import owned_tasks
    from goqueue.server import ServerLog, running_node

    manager = ServiceManager(os.environ)
    server_log = ServerLog(config.log_level, access_log=config.access_log, set_level=set_level)
    with Signals(read_config, manager) as signals:
        try:
            async with running_node(config, server_log=server_log) as node, owned_tasks() as tasks:
                signals.node = node
                resume_gc()
                print(node.ready_line(), flush=True)
                if node.first_password is not None:
                    name, password = config.auth.init_admin, node.first_password
                    print(f"user {name}, password {password} (shown this once)", flush=True)
                manager.ready()
                watchdog = tasks.create_task(manager.run_watchdog())
                await signals.wait_stop(node)
                watchdog.cancel()
        except asyncio.CancelledError:
            if not signals.has_given_up:
                raise

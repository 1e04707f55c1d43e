"""What the jobs of `goqueue pipeline` share: their options, a session, and how to tell progress.

    @command(app, "count")
    def count(session: Session, job: JobOptions) -> None:
        address = reached_broker(session, job.bootstrap)
        with job.run(session, "count") as running:
            running.streams([...])

At a terminal a job draws its progress on standard error.  Elsewhere, or with `--output json`, each
report is a line of JSON on standard output, unless the job has results of its own to write there.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer

from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.job_progress import telling
from goqueue.cli.session import Session
from goqueue.model.options import Pairs, option

if TYPE_CHECKING:
    from goqueue.spark.runtime.job_runner import Runner

LOCAL: Final = "local[*]"
KAFKA_PORT: Final = 9092
BROKER_SECONDS: Final = 5.0  # it may be starting; who mistyped it should not wait for long
CONNECT: Final = "sc://"
MASTERS: Final = ("local", "spark://", "yarn", "k8s://")

Bootstrap = Annotated[
    str | None,
    option(
        "Kafka listener of the broker. \\[GOQUEUE_BOOTSTRAP; the --server's host, port 9092]",
        "-b",
        metavar="HOST:PORT",
    ),
]


class SparkOptions(msgspec.Struct, frozen=True):
    master: Annotated[
        str,
        option(
            "Where Spark runs: local\\[*], spark://HOST:PORT, yarn, k8s://URL, or for `pipeline"
            " run` sc://HOST:PORT.",
            metavar="URL",
        ),
    ] = LOCAL
    settings: Annotated[
        Pairs, option("Spark setting: spark.driver.memory=4g. May be repeated.", "--set")
    ] = {}
    ui: Annotated[bool, option("Serve Spark's web UI while the job runs, and say where.")] = False

    @contextlib.contextmanager
    def run(
        self,
        session: Session,
        name: str,
        *,
        defaults: Mapping[str, str] | None = None,
        has_results: bool = False,
        may_connect: bool = False,
    ) -> "Iterator[Runner]":
        """A runner whose progress is told as `--output` wants it.

        `defaults` are settings of the job's own; the ones that were given win.  `may_connect`: it
        can do without the driver's JVM.
        """
        from goqueue.spark.runtime.job_runner import runner

        self._check(may_connect=may_connect)
        with (
            telling("table" if has_results else session.output_format()) as tell,
            runner(
                master=self.master,
                app_name=f"goqueue pipeline {name}",
                settings=self.spark_settings(defaults or {}),
                tell=tell,
            ) as running,
        ):
            if self.ui:
                typer.echo(f"Spark's UI: {running.spark.sparkContext.uiWebUrl}", err=True)
            yield running

    def spark_settings(self, defaults: Mapping[str, str]) -> dict[str, str]:
        asked = {"spark.ui.enabled": "true"} if self.ui else {}
        return {**defaults, **asked, **self.settings}

    def _check(self, *, may_connect: bool) -> None:
        if self.master.startswith(CONNECT):
            self._check_connect(may_connect=may_connect)
        elif not self.master.startswith(MASTERS):
            raise UsageFailure(
                f"--master {self.master}: must be local[*], local[2], spark://HOST:PORT, yarn or"
                " k8s://URL"
            )
        foreign = sorted(name for name in self.settings if not name.startswith("spark."))
        if foreign:
            raise UsageFailure(f"--set {foreign[0]}: Spark's settings begin with `spark.`")

    def _check_connect(self, *, may_connect: bool) -> None:
        if not may_connect:
            raise UsageFailure(
                f"--master {self.master}: this job commits from the driver, and that of Spark"
                " Connect is on its server: run this command there, or use spark://HOST:PORT. Over"
                " Connect there are `goqueue pipeline run`, and the format `goqueue` for programs"
            )
        if self.ui:
            raise UsageFailure("--ui: Spark's UI is that of the Connect server")


class JobOptions(SparkOptions, frozen=True):
    """Of a job on Spark that talks to a broker."""

    bootstrap: Bootstrap = None
    command_config: Annotated[
        str | None,
        option(
            "File of Kafka's settings to log in with: security.protocol, sasl.mechanism and so on."
            " \\[GOQUEUE_KAFKA_CONFIG]",
            metavar="FILE",
        ),
    ] = None

    def log_in(self) -> None:
        """For this program and the processes that it starts."""
        from goqueue.client.kafka import CONFIG_VARIABLE

        if self.command_config is not None:
            os.environ[CONFIG_VARIABLE] = os.path.abspath(self.command_config)


def bootstrap_of(session: Session, given: str | None) -> str:
    """The broker's Kafka listener: as told, or on the host that the HTTP address names."""
    told = given or os.environ.get("GOQUEUE_BOOTSTRAP")
    if told:
        return told
    host = urlsplit(session.target().server).hostname or "localhost"
    return f"[{host}]:{KAFKA_PORT}" if ":" in host else f"{host}:{KAFKA_PORT}"


def reached_broker(
    session: Session, job: JobOptions, told: str | None = None, login: str | None = None
) -> str:
    """As `bootstrap_of`, of a broker that answers and lets us in.

    `told` and `login` are what a pipeline's file says.
    """
    job.log_in()
    address = bootstrap_of(session, job.bootstrap or told)
    check_broker(address, login)
    return address


def check_broker(address: str, login: str | None = None) -> None:
    """Whether one is there is known in a moment, and Spark takes seconds to start."""
    from goqueue.client.errors import BadLogin, ServerUnreachable
    from goqueue.client.kafka import KafkaClient, KafkaRefused, read_login

    try:
        shown = read_login(login) if login else None
        with KafkaClient(
            address, client_id="goqueue", timeout_s=BROKER_SECONDS, login=shown
        ) as client:
            client.metadata([])
    except BadLogin as error:
        raise UsageFailure(str(error)) from error
    except KafkaRefused as error:
        raise Failure(str(error), ExitCode.DENIED) from error
    except ServerUnreachable as error:
        raise Failure(
            f"no broker's Kafka listener answers at {address}: start it, or say where it is with"
            f" --bootstrap or GOQUEUE_BOOTSTRAP ({error.__cause__ or error})",
            ExitCode.UNREACHABLE,
        ) from error

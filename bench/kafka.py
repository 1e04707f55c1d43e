"""Apache Kafka as a peer: fetched with Maven into a cache, run as one node (KRaft, combined).

The JVM flags are those of Kafka's own start script.  What is not set here is Kafka's default.
"""

import os
import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import ClassVar

from bench.brokers import Broker, free_port
from bench.process import Failed, Process

VERSIONS = "[4.0,5.0)"  # the newest of these; say --kafka-version for another
FETCH_SECONDS_MAX = 900
TOOLS = ("java", "mvn")
JVM_FLAGS = [
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{0}</version>
  </dependency><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{0}</version>
  </dependency></dependencies>
</project>
"""

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{kafka}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Kafka(Broker):
    name = "kafka"
    topic_settings: ClassVar = {
        "acks=1": {},  # never synced, unless the operating system does
        "acks=all, fsync": {"flush.messages": "1"},  # before every reply, as GoQueue does
        "acks=all, no fsync": {},
    }

    def __init__(self, directory: Path, versions: str = VERSIONS) -> None:
        super().__init__(directory)
        self._libraries = fetched(versions)
        self.version = version_of(self._libraries)

    def start(self) -> None:
        properties = self.directory / "server.properties"
        if not properties.exists():
            self._format(properties)
        argv = server_argv(self._libraries, properties)
        self._process = Process(argv, self.directory / "kafka.log")
        self._wait_until_it_answers(self._process)

    def _format(self, properties: Path) -> None:
        kafka, controller = free_port(), free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        data = self.directory / "data"
        properties.write_text(PROPERTIES.format(kafka=kafka, controller=controller, data=data))
        self.kafka = f"127.0.0.1:{kafka}"
        format_storage(self._libraries, new_cluster_id(), properties)


def version_of(libraries: Path) -> str:
    (jar,) = libraries.glob("kafka-server-common-*.jar")
    return re.sub(r"kafka-server-common-|\.jar", "", jar.name)


def server_argv(libraries: Path, properties: Path) -> list[str]:
    return ["java", *JVM_FLAGS, "-cp", f"{libraries}/*", "kafka.Kafka", str(properties)]


def new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def format_storage(libraries: Path, cluster_id: str, properties: Path) -> None:
    tool = ["java", "-cp", f"{libraries}/*", "kafka.tools.StorageTool", "format"]
    run([*tool, f"--cluster-id={cluster_id}", "--config", str(properties)], properties.parent)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "goqueue-bench"


def is_available() -> bool:
    return all(shutil.which(tool) for tool in TOOLS)


def fetched(versions: str) -> Path:
    """Where Kafka's jars are; fetches them the first time."""
    if not is_available():
        raise Failed("Apache Kafka needs java and mvn (on Debian: default-jre-headless, maven)")
    libraries = (
        cache_directory() / f"kafka-and-tools-{re.sub(r'[^0-9.]+', '-', versions).strip('-')}"
    )
    if not libraries.exists():
        work = libraries.with_suffix(".partial")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "pom.xml").write_text(POM.format(versions))
        goal = ["mvn", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        run([*goal, f"-DoutputDirectory={work}"], work)
        work.rename(libraries)
    return libraries


def run(argv: list[str], directory: Path) -> str:
    """What it wrote."""
    done = subprocess.run(
        argv, cwd=directory, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout

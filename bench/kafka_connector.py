"""Spark's own Kafka connector, from Maven, kept in the user's cache.

It is of no use to us but to compare with: jobs written for it must run against our broker as they
are, and ours must read what it writes.
"""

import shutil
import subprocess
from pathlib import Path

CACHE = Path.home() / ".cache" / "goqueue-java"
FETCH_S = 240.0

# Versions of the connector and of its token provider, best first.  Those of another Spark than ours
# are for when its own is not published yet.
VERSIONS = (("4.3.0", "4.3.0"), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))
CLIENTS = "3.9.2"
POOL = "2.13.1"


class NotToBeHad(Exception):
    """Why the connector is not here."""


def connector_jars() -> list[Path]:
    """What an earlier call has fetched, or the best there is; raises `NotToBeHad`."""
    for versions in VERSIONS:
        if _folder(*versions).is_dir():
            return sorted(_folder(*versions).glob("*.jar"))
    problems = []
    for versions in VERSIONS:
        try:
            _fetch(_folder(*versions), *versions)
        except NotToBeHad as error:
            problems.append(f"{versions[0]}: {error}")
        else:
            return sorted(_folder(*versions).glob("*.jar"))
    raise NotToBeHad("; ".join(problems))


def _folder(connector: str, provider: str) -> Path:
    return CACHE / f"spark-kafka-{connector}-{provider}"


def _fetch(folder: Path, connector: str, provider: str) -> None:
    if shutil.which("mvn") is None:
        raise NotToBeHad("needs Maven")
    work = folder.with_name(f"{folder.name}.fetching")
    work.mkdir(parents=True, exist_ok=True)
    pom = work / "pom.xml"
    pom.write_text(_project(connector, provider), encoding="utf-8")
    jars = work / "jars"
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={jars}"],
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotToBeHad(f"Maven took longer than {FETCH_S:g} s") from error
    if done.returncode:
        raise NotToBeHad(f"Maven: {(done.stdout + done.stderr).strip()[:200]}")
    jars.replace(folder)
    shutil.rmtree(work)


def _project(connector: str, provider: str) -> str:
    """Each jar by its name: what they depend on beside these comes with Spark."""
    wanted = [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", connector),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", provider),
        ("org.apache.kafka", "kafka-clients", CLIENTS),
        ("org.apache.commons", "commons-pool2", POOL),
    ]
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>goqueue</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
        f"<dependencies>{''.join(_dependency(*each) for each in wanted)}</dependencies></project>"
    )


def _dependency(group: str, artifact: str, version: str) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions><exclusion>"
        "<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )

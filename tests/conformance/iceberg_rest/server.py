"""Apache Iceberg's REST catalog in a process of its own, which can be killed and started again."""

import shutil
import socket
import subprocess
from pathlib import Path

from bench.kafka_connector import CACHE, FETCH_S, NotToBeHad

HERE = Path(__file__).parent
JARS = CACHE / "iceberg-rest-1.10.0"
STOP_S = 30.0


def fetch_jars() -> str:
    """A class path; raises `NotToBeHad`."""
    import pyspark

    if not JARS.is_dir():
        if shutil.which("mvn") is None:
            raise NotToBeHad("needs Maven")
        work = JARS.with_name(f"{JARS.name}.fetching")
        command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={work}"],
                capture_output=True,
                text=True,
                timeout=FETCH_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NotToBeHad(f"Maven took longer than {FETCH_S:g} s") from error
        if done.returncode:
            raise NotToBeHad(f"Maven: {(done.stdout + done.stderr).strip()[:200]}")
        work.replace(JARS)
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    return ":".join([f"{JARS}/*", *map(str, hadoop)])


class RestCatalogServer:
    """Keeps its tables' names in a SQLite file, and their metadata in an object store."""

    def __init__(self, class_path: str, java: Path, database: Path, store: str) -> None:
        self._command = [str(java), "-cp", class_path, str(HERE / "RestCatalog.java")]
        self._properties = [
            "catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog",
            f"uri=jdbc:sqlite:{database}",
            "warehouse=s3://lake/warehouse",
            "io-impl=org.apache.iceberg.aws.s3.S3FileIO",
            f"s3.endpoint={store}",
            "s3.path-style-access=true",
        ]
        self._log = database.with_suffix(".log")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, str(self._port), *self._properties],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("port "), self._log.read_text()[-3000:]

    def restart(self) -> None:
        """On the same port, with all that it had committed."""
        self.kill()
        self.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(STOP_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

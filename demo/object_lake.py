"""A lake in an object store with a REST catalog, both in processes of their own: `--lake s3`.

The store is the S3 server of `moto`, which keeps everything in memory: what is in it is gone when
the demo ends.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from demo.processes import wait_for_line

BUCKET: Final = "lake"
PLACE: Final = f"s3://{BUCKET}/demo"
CATALOG: Final = "demo"
NAMESPACE: Final = "goqueue"
KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "demo",
    "AWS_SECRET_ACCESS_KEY": "demo",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}
STORE: Final = """
import time
import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%s" % server.get_host_and_port()
boto3.client("s3", endpoint_url=url).create_bucket(Bucket="{bucket}")
print(url, flush=True)
while True:
    time.sleep(3600)
"""


class ObjectLake:
    """Has the variables that jobs need, as a user sets them for a store of his own."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "lake.log").open("w")
        self._processes: list[subprocess.Popen[str]] = []
        try:
            self.store = self._start("-c", STORE.format(bucket=BUCKET), what="object store")
            (folder / "catalog").mkdir(exist_ok=True)
            self.catalog = self._start(
                str(Path(__file__).with_name("rest_catalog.py")),
                str(folder / "catalog" / "catalog.db"),
                f"warehouse={PLACE}",
                f"s3.endpoint={self.store}",
                what="REST catalog",
            )
        except BaseException:
            self.close()
            raise
        self.environment = {
            **KEYS,
            "AWS_ENDPOINT_URL": self.store,
            f"PYICEBERG_CATALOG__{CATALOG.upper()}__TYPE": "rest",
            f"PYICEBERG_CATALOG__{CATALOG.upper()}__URI": self.catalog,
        }

    @property
    def store_pid(self) -> int:
        """Of the object store's process."""
        return self._processes[0].pid

    def close(self) -> None:
        for each in self._processes:
            each.kill()
            each.wait()
            if each.stdout is not None:
                each.stdout.close()
        self._log.close()

    def _start(self, *arguments: str, what: str) -> str:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **KEYS},
        )
        self._processes.append(process)
        return wait_for_line(process, self._log, what).strip()


def count_rows(lake: ObjectLake, table: str) -> int:
    """With PyIceberg alone, as any other reader would."""
    from pyiceberg.catalog import load_catalog

    keys = {"s3.access-key-id": "demo", "s3.secret-access-key": "demo", "s3.region": "us-east-1"}
    place = {"type": "rest", "uri": lake.catalog, "s3.endpoint": lake.store}
    found = load_catalog(CATALOG, **place, **keys)
    return int(found.load_table((NAMESPACE, table)).scan().count())

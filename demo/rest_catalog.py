"""An Iceberg REST catalog for the demo: PyIceberg's SQL catalog behind the few routes it takes.

    python demo/rest_catalog.py DATABASE [NAME=VALUE ...]

Prints its URL.  The properties are PyIceberg's, as `s3.endpoint`.  One commit at a time, no logins:
for a lake of one's own there are Polaris, Nessie, Lakekeeper, Unity and others.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

STATUS: Final = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}
LEVELS: Final = "\x1f"  # between the levels of a namespace


class RestCatalog(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, database: str, properties: dict[str, str], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.catalog = SqlCatalog("rest", uri=f"sqlite:///{database}", **properties)
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: RestCatalog
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        verb = "GET" if self.command == "HEAD" else self.command
        try:
            with self.server.lock:
                found = self._route(verb, urlsplit(self.path).path, body)
            self._send(200 if found is not None else 404, found or "")
        except tuple(STATUS) as error:
            status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
            self._send(status, _error(error, status))
        except Exception as error:  # whatever else it is, the client is told
            self._send(500, _error(error, 500))

    def _route(self, verb: str, path: str, body: bytes) -> str | None:
        catalog = self.server.catalog
        parts = [unquote(each) for each in path.strip("/").split("/")]
        match verb, *parts:
            case "GET", "v1", "config":
                return json.dumps({"defaults": {}, "overrides": {}})
            case "GET", "v1", "namespaces":
                return json.dumps({"namespaces": catalog.list_namespaces()})
            case "POST", "v1", "namespaces":
                told = json.loads(body)
                catalog.create_namespace(tuple(told["namespace"]), told.get("properties") or {})
                return json.dumps(told)
            case "GET", "v1", "namespaces", name:
                space = tuple(name.split(LEVELS))
                properties = catalog.load_namespace_properties(space)
                return json.dumps({"namespace": space, "properties": properties})
            case "GET", "v1", "namespaces", name, "tables":
                found = catalog.list_tables(tuple(name.split(LEVELS)))
                tables = [{"namespace": each[:-1], "name": each[-1]} for each in found]
                return json.dumps({"identifiers": tables})
            case "POST", "v1", "namespaces", name, "tables":
                return self._create(tuple(name.split(LEVELS)), body)
            case "GET", "v1", "namespaces", name, "tables", table:
                return _table(catalog.load_table((*name.split(LEVELS), table)))
            case "POST", "v1", "namespaces", name, "tables", table:
                return self._commit((*name.split(LEVELS), table), body)
            case _:
                return None

    def _create(self, namespace: tuple[str, ...], body: bytes) -> str:
        told = CreateTableRequest.model_validate_json(body)
        catalog, name = self.server.catalog, (*namespace, told.name)
        given = {
            "identifier": name,
            "schema": told.table_schema,
            "location": told.location,
            "partition_spec": told.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            "sort_order": told.write_order or UNSORTED_SORT_ORDER,
            "properties": told.properties,
        }
        if not told.stage_create:
            return _table(catalog.create_table(**given))
        if catalog.table_exists(name):
            raise TableAlreadyExistsError(f"table {'.'.join(name)} already exists")
        return _table(catalog._create_staged_table(**given))

    def _commit(self, name: tuple[str, ...], body: bytes) -> str:
        told = CommitTableRequest.model_validate_json(body)
        table: Any = SimpleNamespace(name=lambda: name)
        done = self.server.catalog.commit_table(table, told.requirements, told.updates)
        return done.model_dump_json(by_alias=True)

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _table(table: Any) -> str:
    found = {"metadata-location": table.metadata_location, "config": {}}
    return json.dumps({**found, "metadata": json.loads(table.metadata.model_dump_json())})


def _error(error: Exception, status: int) -> str:
    told = {"message": str(error), "type": type(error).__name__, "code": status}
    return json.dumps({"error": told})


def main(database: str, *properties: str) -> None:
    given = dict(each.split("=", maxsplit=1) for each in properties)
    with RestCatalog(database, given) as server:
        print(server.url, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

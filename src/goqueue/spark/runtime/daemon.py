"""The process that Spark forks its Python workers from: Spark's own, but quiet.

    python -m goqueue.spark.runtime.daemon pyspark.worker

When a query has all the rows it wants, as with `show()` or a limit, Spark hangs up on the workers
that still send some.  Its own daemon then prints a trace of that for every one of them.
"""

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)  # as Spark's own does, without the trace


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()

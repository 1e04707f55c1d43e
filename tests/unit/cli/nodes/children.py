"""Programs that stand in for nodes: they say that they are ready, and end as they are told."""

import io
import os
import sys

from goqueue.cli.nodes.output import NodeLog
from goqueue.cli.nodes.process import Program

READY = "print('GoQueue is ready: kafka=k{0} http=http://h{0}', flush=True)"
WAIT = "sys.stdin.buffer.read()"


def child(*statements: str) -> Program:
    script = "\n".join(["import os, signal, sys", *statements])
    return Program([sys.executable, "-I", "-S", "-c", script], dict(os.environ))


def quiet_log() -> NodeLog:
    return NodeLog(is_readable=True, stream=io.StringIO())

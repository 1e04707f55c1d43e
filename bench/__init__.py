"""Benchmarks: the installed broker, and its peers, measured by the same client in the same run.

    python -m bench                                        everything, against Apache Kafka
    python -m bench --quick                                the same in small, without the peer
    python -m bench throughput --messages 5000000 --size 100 --peer kafka

One file in `parts/` a question; `native/` has the client that asks it.  Every message that is
counted was read back and compared, byte by byte.  `docs/benchmarks.md` has figures and method.
"""

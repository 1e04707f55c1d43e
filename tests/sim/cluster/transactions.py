"""Transactions over several nodes, as one kind of client among others (`transaction_workload`)."""

from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.transaction_workload import ClusterWorkload

TRANSACTIONS = 4


class Transactions(ClusterWorkload):
    def __init__(self, nodes: ClusterWorld, transactions: int = TRANSACTIONS) -> None:
        super().__init__(nodes, transactions)

    def prepare(self) -> None:
        self.create_topics()

    def check_end(self) -> None:
        self.finish_over_nodes()
        for anomaly, found in self.history.anomalies().items():
            self.problems.append(f"{anomaly}: {found}")
        if not self.history.final:
            self.problems.append("nothing was committed")

"""What is done to the nodes of a cluster: killed, stopped, wiped, restarted; and undone.

kill, stop         one node, whatever it is; `stop` is SIGSTOP, so nobody refuses its connections
wipe               one node is killed and its disk taken away; never the one that has the metadata
controller         the node that decides is killed
controller-stop    …or stopped
both               the controller and the leader of a partition (another node) are killed together
both-stop          …or stopped
power              all nodes are killed, and start together
restart            one node is stopped in good order (SIGTERM) and started
rolling            all nodes, one after the other, each when the one before is in sync
"""

import random
import shutil
import signal
from collections.abc import Callable, Sequence
from typing import Final

from tests.chaos.cluster import FOLLOW_S, Cluster

KINDS: Final = (
    "kill",
    "stop",
    "controller",
    "wipe",
    "restart",
    "both",
    "controller-stop",
    "power",
    "both-stop",
    "rolling",
)
STOPS: Final = {"stop", "controller-stop", "both-stop"}
STOP_S: Final = 60.0
FIRST: Final = 1  # has the metadata, where that is not in etcd

Eventually = Callable[..., None]


class Fault:
    def __init__(self, cluster: Cluster, chance: random.Random, kind: str, topic: str) -> None:
        """`topic` is one whose leaders are chosen from."""
        self.kind = kind
        self._cluster = cluster
        self.victims = self._choose(chance, topic)

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(map(str, self.victims))}"

    def _choose(self, chance: random.Random, topic: str) -> list[int]:
        numbers = sorted(self._cluster.nodes)
        match self.kind:
            case "kill" | "stop" | "restart":
                return [chance.choice(numbers)]
            case "wipe":
                kept = {} if self._cluster.quorum else {FIRST}
                return [chance.choice([each for each in numbers if each not in kept])]
            case "controller" | "controller-stop":
                return [self._controller()]
            case "both" | "both-stop":
                return sorted({self._controller(), self._leader(chance, topic)})
            case _:
                return numbers

    def _controller(self) -> int:
        return self._cluster.controller() or FIRST

    def _leader(self, chance: random.Random, topic: str) -> int:
        """Of a partition that the controller does not lead, if there is one."""
        controller = self._controller()
        leaders = {self._cluster.leader(topic, index) for index in range(3)} - {None, controller}
        others = sorted(each for each in leaders if each is not None)
        return chance.choice(others or [each for each in self._cluster.nodes if each != controller])

    # --- doing it ---------------------------------------------------------------------------------

    def begin(self) -> None:
        nodes = [self._cluster.nodes[each] for each in self.victims]
        if self.kind in STOPS:
            for each in nodes:
                each.process.send_signal(signal.SIGSTOP)
            return
        if self.kind == "restart":
            for each in nodes:
                assert each.terminate(STOP_S) == 0, each.log()
            return
        if self.kind == "rolling":
            return  # see `end`
        for each in nodes:
            each.process.kill()
        for each in nodes:
            each.kill()
        if self.kind == "wipe":
            for each in nodes:
                shutil.rmtree(each.data_dir)

    def end(self, eventually: Eventually) -> None:
        if self.kind in STOPS:
            for number in self.victims:
                self._cluster.nodes[number].process.send_signal(signal.SIGCONT)
        elif self.kind == "rolling":
            restart_all(self._cluster, self.victims, eventually)
        else:
            self._cluster.start_all(self.victims)


def restart_all(cluster: Cluster, numbers: Sequence[int], eventually: Eventually) -> None:
    """In good order, one after the other."""
    for number in numbers:
        node = cluster.nodes[number]
        assert node.terminate(STOP_S) == 0, node.log()
        node.start()
        eventually(cluster.is_whole, within_s=FOLLOW_S)

"""What a server's `/metrics` says, as numbers to look up, add up and compare."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

Labels = Mapping[str, str]


class Samples:
    """One scrape."""

    def __init__(self, text: str = "") -> None:
        from prometheus_client.parser import text_string_to_metric_families

        self._by_name: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._by_name[sample.name].append((sample.labels, sample.value))

    def of(self, name: str, **wanted: str) -> Iterator[tuple[Labels, float]]:
        for labels, value in self._by_name.get(name, ()):
            if all(labels.get(label) == each for label, each in wanted.items()):
                yield labels, value

    def total(self, name: str, **wanted: str) -> float:
        return sum(value for _, value in self.of(name, **wanted))

    def highest(self, name: str, **wanted: str) -> float:
        return max((value for _, value in self.of(name, **wanted)), default=0.0)

    def values(self, name: str, label: str) -> set[str]:
        """That the label has."""
        return {labels[label] for labels, _ in self.of(name) if label in labels}

    def buckets(self, histogram: str, **wanted: str) -> dict[float, float]:
        """Counts by upper bound, of all series together."""
        found: dict[float, float] = defaultdict(float)
        for labels, value in self.of(f"{histogram}_bucket", **wanted):
            found[float(labels["le"])] += value
        return found


def rate(before: float, after: float, seconds: float) -> float:
    """A second; a counter that is lower began again."""
    grown = after - before if after >= before else after
    return grown / seconds if seconds > 0 else 0.0


def quantile(
    share: float, before: Mapping[float, float], after: Mapping[float, float]
) -> float | None:
    """Of what a histogram saw between two scrapes, as Prometheus estimates it; None: nothing."""
    counts = [(bound, count - before.get(bound, 0.0)) for bound, count in sorted(after.items())]
    if not counts or counts[-1][1] <= 0:
        return None
    wanted, low, below = share * counts[-1][1], 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            if bound == float("inf"):
                return low
            part = (wanted - below) / (count - below) if count > below else 1.0
            return low + (bound - low) * part
        low, below = bound, count
    return low


def add_buckets(every: Iterable[Mapping[float, float]]) -> dict[float, float]:
    found: dict[float, float] = defaultdict(float)
    for buckets in every:
        for bound, count in buckets.items():
            found[bound] += count
    return found

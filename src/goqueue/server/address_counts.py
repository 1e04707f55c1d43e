"""Connections of a listener by the IP address that they come from."""


class AddressCounts:
    """How many connections each IP address has."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.total = 0  # invariant: the sum over `_counts`

    def of(self, address: str) -> int:
        return self._counts.get(address, 0)

    def add(self, address: str) -> None:
        self._counts[address] = self.of(address) + 1
        self.total += 1

    def remove(self, address: str) -> None:
        left = self._counts.pop(address) - 1
        if left:
            self._counts[address] = left
        self.total -= 1

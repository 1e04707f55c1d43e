"""How often a validator may look at one value of a payload: a bound that the schema gives.

    {"oneOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}

A validator of this schema looks twice at a list, four times at a list in it, and so on: a payload
of forty brackets takes years.  The looks for a payload's depth, times its values, bound what it
costs to validate, and are known before.  A schema that refers to itself for the same value has no
meaning, and is refused; so is one whose references double until no value could be validated.
"""

from typing import Any

import msgspec

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.keywords import REFERENCES, subschemas
from goqueue.schemas.json.references import Node, References
from goqueue.schemas.limits import PAYLOAD_DEPTH_MAX, SCHEMA_NODES_MAX, WORK_MAX

_STEPS_MAX = 10 * SCHEMA_NODES_MAX


class _Edges(msgspec.Struct):
    """From a subschema to others, by their number."""

    same: list[int] = []  # for the same value
    named: dict[str, list[int]] = {}  # for the property or item of that name
    inside: list[int] = []  # for any value inside


class Looks:
    def __init__(self, document: Node, references: References) -> None:
        self._references = references
        self._edges: list[_Edges] = []
        self._collect(document)
        self._by_depth: list[int] = []
        self._is_bounded = False  # deeper payloads have no more looks than the last of these
        self._measure(_order(self._edges))

    def at(self, depth: int) -> int:
        """Looks at one value of a payload that is nested so deeply; WORK_MAX: or many more."""
        if depth < len(self._by_depth):
            return self._by_depth[depth]
        return self._by_depth[-1] if self._is_bounded else WORK_MAX

    def _collect(self, document: Node) -> None:
        numbers: dict[int, int] = {}
        waiting: list[dict[str, Any]] = []

        def number(node: Node) -> list[int]:
            if isinstance(node, bool):
                return []
            if id(node) not in numbers:
                numbers[id(node)] = len(self._edges)
                self._edges.append(_Edges([], {}, []))
                waiting.append(node)
            return [numbers[id(node)]]

        number(document)
        while waiting:
            node = waiting.pop()
            edges = self._edges[numbers[id(node)]]
            for keyword in REFERENCES:
                if isinstance(node.get(keyword), str):
                    edges.same += number(self._references.resolve(node, node[keyword]))
            for each in subschemas(node):
                if not each.is_inside:
                    edges.same += number(each.schema)
                elif each.keyword in ("properties", "prefixItems"):
                    edges.named.setdefault(str(each.key), []).extend(number(each.schema))
                else:
                    edges.inside += number(each.schema)

    def _measure(self, order: list[int]) -> None:
        if not order:  # true or false
            self._by_depth, self._is_bounded = [1], True
            return
        own = [1] * len(order)
        for each in order:
            own[each] = min(1 + sum(own[other] for other in self._edges[each].same), WORK_MAX)
        if max(own) >= WORK_MAX:
            raise InvalidSchema(
                f"references and alternatives lead to {WORK_MAX:,} subschemas or more for one value"
            )
        level, steps = own, 0
        self._by_depth.append(own[0])
        while len(self._by_depth) <= PAYLOAD_DEPTH_MAX and steps <= _STEPS_MAX:
            deeper = self._look_deeper(order, own, level)
            steps += len(order)
            if deeper == level:
                self._is_bounded = True
                return
            level = deeper
            self._by_depth.append(level[0])

    def _look_deeper(self, order: list[int], own: list[int], level: list[int]) -> list[int]:
        """Looks at a value one level further inside than in `level`."""
        deeper = list(own)
        for each in order:
            edges = self._edges[each]
            looks = sum(deeper[other] for other in edges.same)
            looks += max((sum(level[n] for n in some) for some in edges.named.values()), default=0)
            looks += sum(level[other] for other in edges.inside)
            deeper[each] = min(max(looks, own[each]), WORK_MAX)
        return deeper


def _order(edges: list[_Edges]) -> list[int]:
    """Subschemas after those that they apply to the same value; the others have no order."""
    order: list[int] = []
    done: set[int] = set()
    for first in range(len(edges)):
        path: list[int] = []
        stack = [first]
        while stack:
            each = stack[-1]
            if each in done:
                stack.pop()
                continue
            if path and path[-1] == each:
                path.pop()
                stack.pop()
                done.add(each)
                order.append(each)
                continue
            if each in path or each in edges[each].same:
                raise InvalidSchema("the schema refers to itself for the same value")
            path.append(each)
            stack.extend(other for other in edges[each].same if other not in done)
    return order

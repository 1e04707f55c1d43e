"""Where `$ref` points: into the document, into one that it names as a reference, to an anchor."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.keywords import definitions, subschemas

BASE: Final = "https://schema.invalid/"  # of documents without $id

# Schemas of schemas: validators know them.  They allow what a value says of itself, so for
# comparisons and bounds they count as anything.
METASCHEMAS: Final = (
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)

Node = dict[str, Any] | bool


class References:
    """Of a document and of those that it refers to by name."""

    def __init__(self, document: Node, named: Mapping[str, Node]) -> None:
        self._resources: dict[str, Node] = dict.fromkeys(METASCHEMAS, True)  # by URI, with anchors
        self._bases: dict[int, str] = {}  # of each subschema
        for name, each in named.items():
            self._add(each, _join(BASE, name))
        self._add(document, BASE)

    def _add(self, document: Node, base: str) -> None:
        self._resources[base] = document
        waiting = [(document, base)]
        while waiting:
            node, base = waiting.pop()
            if not isinstance(node, dict) or id(node) in self._bases:
                continue
            base = self._note(node, base)
            self._bases[id(node)] = base
            waiting.extend((each.schema, base) for each in subschemas(node))
            waiting.extend((each.schema, base) for each in definitions(node))

    def _note(self, node: dict[str, Any], base: str) -> str:
        """Its `$id` and anchors; gives the base of what is inside."""
        own = node.get("$id")
        if isinstance(own, str):
            uri = _join(base, own)
            self._resources.setdefault(uri.removesuffix("#"), node)
            if not own.startswith("#"):
                base = urldefrag(uri)[0]
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str):
                self._resources.setdefault(f"{base}#{anchor}", node)
        return base

    def resolve(self, node: dict[str, Any], reference: str) -> Node:
        """What the reference in that subschema means; raises `InvalidSchema` if nothing."""
        uri = _join(self._bases.get(id(node), BASE), reference)
        address, fragment = urldefrag(uri)
        if not fragment or uri in self._resources:
            found = self._resources.get(uri.removesuffix("#"))
        else:
            found = _follow(self._resources.get(address), unquote(fragment))
        if not isinstance(found, dict | bool):
            raise InvalidSchema(
                f"$ref {reference!r} leads nowhere; schemas of other subjects are named in"
                " `references`"
            )
        if isinstance(found, dict):
            self._bases.setdefault(id(found), address)
        return found


def _join(base: str, reference: str) -> str:
    """Also where the base is a URN, which has no path that another one could be relative to."""
    if reference.startswith("#"):
        return urldefrag(base)[0] + reference
    return urljoin(base, reference)


def _follow(document: Any, pointer: str) -> Any:
    if not pointer.startswith("/"):
        return None
    for part in pointer[1:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document

"""Pages for people: what is here, and the API with a form for every operation.

Made from the API document, without anything from elsewhere: they work on a machine that has no
internet.  The script is served as a file of its own, so that the pages' security policy can
forbid every other one.  All links are relative: the pages work below any prefix of a proxy.
"""

import asyncio
import html
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from litestar import Request, Response, get

from goqueue._version import __version__
from goqueue.broker import Broker
from goqueue.security import ResourceType
from goqueue.server.http.asgi.access import base_url
from goqueue.server.http.asgi.dependencies import TheBroker, TheDocument
from goqueue.server.http.security.visibility import principal_of, visible

AnyRequest = Request[Any, Any, Any]

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self';"
    " frame-ancestors 'none'"
)

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #178a5f;
  --get: #2470c2; --post: #178a5f; --patch: #a06a00; --put: #a06a00; --delete: #c23b3b; }
@media (prefers-color-scheme: dark) { :root { --accent: #3c9; --get: #6ab0ff; --post: #3c9;
  --patch: #e0b050; --put: #e0b050; --delete: #ff8080; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 small { font-weight: normal; opacity: .6; font-size: .5em; }
code, pre, textarea, input, select { font: 13px/1.45 ui-monospace, monospace; }
summary code, p code { overflow-wrap: anywhere; }
td:first-child code { white-space: nowrap; }
p code, li code, td code { background: var(--soft); padding: 0 .25em; border-radius: 3px; }
pre { background: var(--soft); padding: .7rem; overflow: auto; border-radius: 6px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
details { padding: .4rem .8rem; }
summary { cursor: pointer; }
summary b { display: inline-block; width: 4.5rem; }
summary span { opacity: .7; margin-left: 1rem; }
summary a { float: right; text-decoration: none; opacity: .5; }
.GET { color: var(--get); } .POST { color: var(--post); } .PATCH { color: var(--patch); }
.PUT { color: var(--put); } .DELETE { color: var(--delete); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .6rem .25rem 0; vertical-align: top; }
input, textarea { width: 100%; }
textarea { min-height: 7rem; }
a { color: var(--accent); }
nav { position: sticky; top: 0; background: Canvas; padding: .6rem 0; z-index: 1;
  border-bottom: 1px solid var(--line); }
nav a { margin-right: .8rem; white-space: nowrap; }
nav div { overflow-x: auto; padding-top: .4rem; white-space: nowrap; }
button { font: inherit; padding: .2rem .9rem; margin-right: .4rem; }
h2 { scroll-margin-top: 6rem; } details { scroll-margin-top: 6rem; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; }
  summary span { display: block; margin: 0; }
  form table, form tbody, form tr, form td { display: block; width: 100%; }
}
"""


# --- the landing page ---------------------------------------------------------------------------


@get("/", include_in_schema=False)
async def landing_page(request: AnyRequest, broker: TheBroker) -> Response[str]:
    return _page("GoQueue", _landing(_visible_topics(request, broker), base_url(request.scope)))


def _visible_topics(request: AnyRequest, broker: Broker) -> list[tuple[str, int]]:
    """Names, as the caller knows them, and partitions of the topics that it may see."""
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    namespace = broker.tenants.namespace_of(principal_of(request.scope))
    return [
        (each.name if namespace is None else namespace.out(each.name), each.partitions)
        for each in broker.topics()
        if may_see(each.name)
    ]


def _landing(topics: Sequence[tuple[str, int]], address: str) -> str:
    rows = "".join(
        f'<tr><td><a href="topics/{name}">{name}</a></td>'
        f"<td>{partitions}</td>"
        f'<td><a href="topics/{name}/messages?limit=20">messages</a>'
        f' · <a href="topics/{name}/settings">settings</a></td></tr>'
        for name, partitions in topics[:100]
    )
    links = "".join(
        f'<li><a href="{path}"><code>/{path}</code></a> {meaning}</li>'
        for path, meaning in (
            ("docs", "every operation, with a form to try it"),
            ("openapi.json", "the same for programs"),
            ("topics", "topics"),
            ("stats", "numbers at a glance"),
            ("metrics", "numbers for Prometheus"),
            ("readyz?verbose", "ready to serve?"),
        )
    )
    address = html.escape(address)
    return f"""
<h1>GoQueue <small>{__version__}</small></h1>
<p>A durable message queue. This is its HTTP side; Kafka clients have a port of their own.</p>
<ul>{links}</ul>
<h2>A first message</h2>
<pre>curl -d '{{"messages": [{{"value": "hello"}}]}}' {address}/topics/demo/messages
curl "{address}/topics/demo/messages?wait=5s"</pre>
<h2>{len(topics)} topic{"" if len(topics) == 1 else "s"}</h2>
<table><tr><th>name</th><th>partitions</th><th></th></tr>{rows}</table>
"""


def _page(title: str, body: str) -> Response[str]:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )
    headers = {"content-security-policy": _POLICY}
    return Response(text, media_type="text/html", headers=headers)


# --- the API page -------------------------------------------------------------------------------


@get("/openapi.json", include_in_schema=False)
async def api_document(request: AnyRequest, document: TheDocument) -> Response[bytes]:
    address = base_url(request.scope)
    found = await asyncio.to_thread(document.json, address)
    return Response(found, media_type="application/json")


@get("/docs", include_in_schema=False)
async def api_page(request: AnyRequest, document: TheDocument) -> Response[str]:
    found = await asyncio.to_thread(lambda: document.content)
    here = "../" if request.scope["raw_path"].endswith(b"/") else ""
    return _page("GoQueue API", _api(found, base_url(request.scope), here))


@get("/docs/api.js", include_in_schema=False)
async def api_script() -> Response[str]:
    return Response(_SCRIPT, media_type="text/javascript")


def _api(found: dict[str, Any], address: str, here: str) -> str:
    """`here` leads from the page to where the server's paths begin."""
    tags = [tag["name"] for tag in found["tags"]]
    contents = "".join(f'<a href="#{_anchor(tag)}">{tag}</a>' for tag in tags)
    return f"""
<h1>GoQueue API <small>{__version__}</small></h1>
{_rich(found["info"]["description"])}
<p><a href="{here}openapi.json">openapi.json</a> · <a href="{here or "./"}">home</a></p>
<nav><input id="filter" type="search" placeholder="Filter: a path, a verb, a word"
 aria-label="Filter operations"><div>{contents}</div></nav>
<main data-address="{html.escape(address)}" data-here="{here}">{"".join(_sections(found))}</main>
<script src="{here}docs/api.js"></script>
"""


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _rich(text: str) -> str:
    """Paragraphs, lists with stars, and code between back-ticks."""
    blocks = []
    for block in html.escape(text.strip()).split("\n\n"):
        marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", block)
        if marked.startswith("* "):
            items = "".join(f"<li>{item}</li>" for item in marked[2:].split("\n* "))
            blocks.append(f"<ul>{items}</ul>")
        else:
            blocks.append(f"<p>{marked}</p>")
    return "".join(blocks)


def _line(text: str) -> str:
    """As `_rich`, for a cell of a table."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _sections(found: dict[str, Any]) -> Iterator[str]:
    schemas = found["components"]["schemas"]
    operations = [
        (path, method, operation)
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "responses" in operation
    ]
    for tag in found["tags"]:
        about = _line(tag.get("description", ""))
        yield f'<section><h2 id="{_anchor(tag["name"])}">{tag["name"]}</h2><p>{about}</p>'
        for path, method, operation in operations:
            if tag["name"] in operation.get("tags", ()):
                yield _operation(path, method, operation, schemas)
        yield "</section>"


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = operation.get("parameters", ())
    fields = "".join(_field(each) for each in parameters)
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{_line(each['description'])}</td></tr>"
        for status, each in operation["responses"].items()
    )
    verb, name = method.upper(), operation["operationId"]
    return f"""
<details id="{name}"><summary><b class="{verb}">{verb}</b><code>{html.escape(path)}</code>
<span>{_line(operation.get("summary", ""))}</span><a href="#{name}">#</a></summary>
{_rich(operation.get("description", ""))}
<form data-method="{verb}" data-path="{html.escape(path)}">
<table>{fields}</table>{_body_field(operation, schemas)}
<p><button>Send</button><button type="button" class="copy">Copy as curl</button></p>
<pre hidden></pre></form>
<table>{answers}</table></details>"""


def _field(parameter: dict[str, Any]) -> str:
    name, place = html.escape(parameter["name"]), parameter["in"]
    required = " required" if parameter.get("required") else ""
    hint = html.escape(_hint(parameter.get("schema", {})))
    return (
        f"<tr><td><code>{name}</code></td>"
        f'<td><input name="{name}" data-in="{place}" placeholder="{hint}"{required}></td>'
        f"<td>{_line(parameter.get('description') or '')}</td></tr>"
    )


def _hint(schema: dict[str, Any]) -> str:
    if "default" in schema:
        return f"default {schema['default']}"
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    kinds = [str(each.get("type", "")) for each in choices if each.get("type") != "null"]
    return " or ".join(filter(None, kinds))


def _body_field(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return ""
    example = content.get("example") or _example(content["schema"], schemas)
    text = msgspec.json.format(msgspec.json.encode(example), indent=2).decode()
    return f'<textarea name="body" spellcheck="false">{html.escape(text)}</textarea>'


def _example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Something to start from: each required property with an empty value of its kind."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if schema.get("type") == "object":
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        chosen = {name: each for name, each in properties.items() if name in required}
        return {name: _example(each, schemas) for name, each in (chosen or properties).items()}
    empty: dict[str, Any] = {"string": "", "integer": 1, "number": 1, "array": [], "boolean": False}
    return schema.get("default", empty.get(str(schema.get("type")), {}))


_SCRIPT: Final = r"""
"use strict";
const main = document.querySelector("main");
const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";

function request(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams(), headers = {};
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.in === "path")
      path = path.replace("{" + input.name + "}", encodeURIComponent(input.value));
    else if (input.value === "") continue;
    else if (input.dataset.in === "header") headers[input.name] = input.value;
    else query.set(input.name, input.value);
  }
  const options = {method: form.dataset.method, headers}, text = form.elements.body;
  if (text) {
    options.body = text.value;
    headers["content-type"] = "application/json";
  }
  if (path.endsWith("/stream")) headers["accept"] = "text/event-stream";
  return [path + (query.size ? "?" + query : ""), options];
}

function asCurl(target, options) {
  const parts = ["curl"];
  if (options.method !== "GET" && !(options.method === "POST" && options.body))
    parts.push("-X", options.method);
  for (const [name, value] of Object.entries(options.headers))
    parts.push("-H", quoted(name + ": " + value));
  if (options.body) parts.push("-d", quoted(options.body));
  return parts.concat(quoted(main.dataset.address + target)).join(" ");
}

for (const form of document.forms) {
  const output = form.querySelector("pre");
  const show = text => { output.hidden = false; output.textContent = text; };
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const [target, options] = request(form);
    show("…");
    try {
      const answer = await fetch((main.dataset.here ? ".." : ".") + target, options);
      if ((answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
        show("");
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part; !(part = await reader.read()).done;) output.textContent += part.value;
        return;
      }
      let body = await answer.text();
      try { body = JSON.stringify(JSON.parse(body), null, 2); } catch { }
      show(`${options.method} ${target}\n${answer.status}\n${body}`);
    } catch (error) { show(String(error)); }
  });
  form.querySelector(".copy").addEventListener("click", () => {
    const text = asCurl(...request(form));
    show(text);
    navigator.clipboard?.writeText(text).catch(() => {});
  });
}

const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  for (const section of main.children) {
    let shown = 0;
    for (const each of section.querySelectorAll("details")) {
      const text = each.querySelector("summary").textContent.toLowerCase();
      each.hidden = !words.every(word => text.includes(word));
      shown += !each.hidden;
    }
    section.hidden = !shown;
  }
});

function openLinked() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found?.tagName === "DETAILS") { found.open = true; found.scrollIntoView(); }
}
addEventListener("hashchange", openLinked);
openLinked();
"""


HANDLERS = [landing_page, api_document, api_page, api_script]

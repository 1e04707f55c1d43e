"""Pages for people: what is here, and the API with a form for every operation.

Made from the API document, without anything from elsewhere: they work on a machine that has no
internet.  The script is served as a file of its own, so that the pages' security policy can
forbid every other one.
"""

import asyncio
import html
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from litestar import Response, get

from goqueue._version import __version__
from goqueue.broker import Broker
from goqueue.server.http.given import TheBroker, TheDocument

API_PAGE_PATH: Final = "/docs"
SCRIPT_PATH: Final = "/docs/api.js"

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self';"
    " frame-ancestors 'none'"
)

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #2a7; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 small { font-weight: normal; opacity: .6; font-size: .5em; }
code, pre, textarea, input, select { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .7rem; overflow: auto; border-radius: 6px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
details { padding: .4rem .8rem; }
summary { cursor: pointer; }
summary b { display: inline-block; width: 4.5rem; color: var(--accent); }
summary span { opacity: .7; margin-left: 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .6rem .25rem 0; vertical-align: top; }
input, textarea { width: 100%; box-sizing: border-box; }
textarea { min-height: 7rem; }
a { color: var(--accent); }
"""


# --- the landing page ---------------------------------------------------------------------------


@get("/", include_in_schema=False)
async def landing_page(broker: TheBroker) -> Response[str]:
    return _page("GoQueue", _landing(broker))


def _landing(broker: Broker) -> str:
    topics = broker.topics()
    rows = "".join(
        f'<tr><td><a href="/topics/{topic.name}">{topic.name}</a></td>'
        f"<td>{topic.partitions}</td>"
        f'<td><a href="/topics/{topic.name}/messages?limit=20">messages</a>'
        f' · <a href="/topics/{topic.name}/settings">settings</a></td></tr>'
        for topic in topics[:100]
    )
    links = "".join(
        f'<li><a href="{path}"><code>{path}</code></a> {meaning}</li>'
        for path, meaning in (
            (API_PAGE_PATH, "every operation, with a form to try it"),
            ("/openapi.json", "the same for programs"),
            ("/topics", "topics"),
            ("/stats", "numbers at a glance"),
            ("/metrics", "numbers for Prometheus"),
            ("/readyz?verbose", "ready to serve?"),
        )
    )
    return f"""
<h1>GoQueue <small>{__version__}</small></h1>
<p>A durable message queue. This is its HTTP side; Kafka clients have a port of their own.</p>
<ul>{links}</ul>
<h2>A first message</h2>
<pre>curl -d '{{"messages": [{{"value": "hello"}}]}}' $HOST/topics/demo/messages
curl "$HOST/topics/demo/messages?wait=5s"</pre>
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
async def api_document(document: TheDocument) -> Response[bytes]:
    return Response(await asyncio.to_thread(lambda: document.json), media_type="application/json")


@get(API_PAGE_PATH, include_in_schema=False)
async def api_page(document: TheDocument) -> Response[str]:
    return _page("GoQueue API", _api(await asyncio.to_thread(lambda: document.content)))


@get(SCRIPT_PATH, include_in_schema=False)
async def api_script() -> Response[str]:
    return Response(_SCRIPT, media_type="text/javascript")


def _api(found: dict[str, Any]) -> str:
    sections = "".join(_sections(found))
    about = html.escape(found["info"]["description"]).replace("\n* ", "<br>• ")
    return f"""
<h1>GoQueue API <small>{__version__}</small></h1>
<p>{about}</p>
<p><a href="/openapi.json">openapi.json</a> · <a href="/">home</a></p>
{sections}
<script src="{SCRIPT_PATH}"></script>
"""


def _sections(found: dict[str, Any]) -> Iterator[str]:
    schemas = found["components"]["schemas"]
    operations = [
        (path, method, operation)
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "responses" in operation
    ]
    for tag in found["tags"]:
        yield f"<h2>{tag['name']}</h2><p>{html.escape(tag.get('description', ''))}</p>"
        for path, method, operation in operations:
            if tag["name"] in operation.get("tags", ()):
                yield _operation(path, method, operation, schemas)


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = operation.get("parameters", ())
    fields = "".join(_field(each) for each in parameters)
    about = html.escape(operation.get("description", "")).replace("\n\n", "<br>")
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{html.escape(each['description'])}</td></tr>"
        for status, each in operation["responses"].items()
    )
    return f"""
<details><summary><b>{method.upper()}</b><code>{html.escape(path)}</code>
<span>{html.escape(operation.get("summary", ""))}</span></summary>
<p>{about}</p>
<form data-method="{method.upper()}" data-path="{html.escape(path)}">
<table>{fields}</table>{_body_field(operation, schemas)}
<p><button>Send</button></p><pre hidden></pre></form>
<table>{answers}</table></details>"""


def _field(parameter: dict[str, Any]) -> str:
    name, place = html.escape(parameter["name"]), parameter["in"]
    required = " required" if parameter.get("required") else ""
    hint = html.escape(_hint(parameter.get("schema", {})))
    return (
        f"<tr><td><code>{name}</code></td>"
        f'<td><input name="{name}" data-in="{place}" placeholder="{hint}"{required}></td>'
        f"<td>{html.escape(parameter.get('description') or '')}</td></tr>"
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


_SCRIPT: Final = """
"use strict";
for (const form of document.forms) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    let path = form.dataset.path;
    const query = new URLSearchParams();
    for (const input of form.querySelectorAll("input")) {
      if (input.dataset.in === "path")
        path = path.replace("{" + input.name + "}", encodeURIComponent(input.value));
      else if (input.value !== "") query.set(input.name, input.value);
    }
    const text = form.elements.body;
    const options = {method: form.dataset.method};
    if (text) {
      options.body = text.value;
      options.headers = {"content-type": "application/json"};
    }
    const target = path + (query.size ? "?" + query : "");
    const output = form.querySelector("pre");
    output.hidden = false;
    output.textContent = "…";
    try {
      const answer = await fetch(target, options);
      let body = await answer.text();
      try { body = JSON.stringify(JSON.parse(body), null, 2); } catch { }
      output.textContent = `${options.method} ${target}\\n${answer.status}\\n${body}`;
    } catch (error) { output.textContent = String(error); }
  });
}
"""


HANDLERS = [landing_page, api_document, api_page, api_script]

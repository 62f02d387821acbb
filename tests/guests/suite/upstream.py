"""An MCP server with the resources that the conformance suite asks for, which `rind mcp serve --upstream` passes on."""

import base64
import json
import sys

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = "This is the content of the static text resource."
RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": TEXT},
    "test://static-binary": {"mimeType": "image/png", "blob": base64.b64encode(base64.b64decode(PNG)).decode()},
}
TEMPLATE = ("test://template/", "/data")


def read(uri):
    """The content of a resource, or None."""
    start, end = TEMPLATE
    if uri.startswith(start) and uri.endswith(end):
        own = uri[len(start) : -len(end)]
        data = {"id": own, "templateTest": True, "data": f"Data for ID: {own}"}
        return {"mimeType": "application/json", "text": json.dumps(data)}
    return RESOURCES.get(uri)


def result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"resources": {}, "tools": {}},
            "serverInfo": {"name": "suite", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": []}
    if method == "resources/list":
        return {"resources": [{"uri": uri, "name": uri, "mimeType": own["mimeType"]} for uri, own in RESOURCES.items()]}
    if method == "resources/templates/list":
        template = {"uriTemplate": "{id}".join(TEMPLATE), "name": "data", "mimeType": "application/json"}
        return {"resourceTemplates": [template]}
    if method == "resources/read" and (own := read(params["uri"])):
        return {"contents": [{"uri": params["uri"], **own}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    found = result(message["method"], message.get("params", {}))
    answer = {"result": found} if found else {"error": {"code": -32601, "message": "no such method or resource"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)

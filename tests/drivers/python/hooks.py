"""Hooks for schemathesis: bodies that it cannot generate, and names that exist."""

import json

import schemathesis

# Random names do not exist on the server: two of three times a name that interface.py has created is used.
KNOWN = {
    "db": "other", "label": "Label", "key": "key", "field": "counter", "bucket": "bucket", "sequence": "sequence",
    "id": 1, "name": "n", "type": "TYPE",
}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and len(repr(path_parameters)) % 3:
        for name, value in KNOWN.items():
            if name in path_parameters:
                path_parameters[name] = value
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    if query and "path" in query and len(repr(query)) % 2:
        query["path"] = "/folder"
    return query


@schemathesis.serializer("application/jsonl")
def lines(context, value):
    """Valid JSON lines for some requests, arbitrary bytes for others."""
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) % 2:
        text = json.dumps({"id": text, "_from": text, "_to": text}) + "\n"
    return text.encode("utf-8", "surrogatepass")

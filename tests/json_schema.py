"""The part of JSON Schema that the schemas of condcs use; an unknown keyword is an error."""

from __future__ import annotations

from typing import Any

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
_WORDS = {"$schema", "$id", "$defs", "title", "description"}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, at: str = "") -> list[str]:
    """Return what is wrong with a value, each with its place."""
    root = schema if root is None else root
    found: list[str] = []
    for keyword, rule in schema.items():
        if keyword == "$ref":
            target: Any = root
            for part in rule.removeprefix("#/").split("/"):
                target = target[part]
            found += faults(value, target, root, at)
        elif keyword == "anyOf":
            tried = [faults(value, option, root, at) for option in rule]
            found += [] if not all(tried) else min(tried, key=len)
        elif keyword == "type":
            kinds = [rule] if isinstance(rule, str) else rule
            # In Python a truth value is a whole number; in JSON it is not.
            if not any(isinstance(value, _TYPES[k]) and (isinstance(value, bool) <= (k == "boolean")) for k in kinds):
                found.append(f"{at} is {value!r}, not {rule}")
        elif keyword == "const":
            found += [] if value == rule else [f"{at} is {value!r}, not {rule!r}"]
        elif keyword == "enum":
            found += [] if value in rule else [f"{at} is {value!r}, not one of {rule}"]
        elif keyword == "required" and isinstance(value, dict):
            found += [f"{at} lacks {name}" for name in rule if name not in value]
        elif keyword == "properties" and isinstance(value, dict):
            for name in value.keys() & rule.keys():
                found += faults(value[name], rule[name], root, f"{at}/{name}")
        elif keyword == "items" and isinstance(value, list):
            for place, item in enumerate(value):
                found += faults(item, rule, root, f"{at}/{place}")
        elif keyword in ("minItems", "maxItems") and isinstance(value, list):
            wrong = len(value) < rule if keyword == "minItems" else len(value) > rule
            found += [f"{at} has {len(value)} items, {keyword} {rule}"] if wrong else []
        elif keyword in ("minimum", "maximum") and isinstance(value, int | float):
            wrong = value < rule if keyword == "minimum" else value > rule
            found += [f"{at} is {value}, {keyword} {rule}"] if wrong else []
        elif keyword not in _WORDS | {"required", "properties", "items", "minItems", "maxItems", "minimum", "maximum"}:
            raise NotImplementedError(keyword)
    return found

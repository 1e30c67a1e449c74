"""Documents beside their published schemas: what is not legal, and which fields never occur.

The subset of JSON Schema that the schemas use: type, const, enum, properties, required,
additionalProperties, items, and $ref to a whole other schema. A null that a schema allows is a
field of its own, so each is to occur.
"""

from trnsim.document.values import schema

TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "number": int | float,
    "boolean": bool, "null": type(None),
}  # fmt: skip

NULL = "=null"


def is_a(value, kind):
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def resolved(rules):
    """The rules themselves, or those of the schema that they refer to."""
    return schema(rules["$ref"].removeprefix("trnsim/")) if "$ref" in rules else rules


def problems(value, rules, place=""):
    """What of `value` its schema does not allow, each with its place."""
    rules = resolved(rules)
    if "const" in rules and value != rules["const"]:
        yield f"{place} is {value!r}, not {rules['const']!r}"
    if "enum" in rules and value not in rules["enum"]:
        yield f"{place} is {value!r}, not one of {rules['enum']}"
    if "type" in rules:
        kinds = [rules["type"]] if isinstance(rules["type"], str) else rules["type"]
        if not any(is_a(value, kind) for kind in kinds):
            yield f"{place} is {value!r}, not {' or '.join(kinds)}"
            return
    if isinstance(value, dict):
        known = rules.get("properties", {})
        yield from (f"{place}/{name} is missing" for name in rules.get("required", ())
                    if name not in value)  # fmt: skip
        for name, one in value.items():
            rest = rules.get("additionalProperties", {})
            inner = known.get(name, rest)
            if inner is False:
                yield f"{place}/{name} is unknown"
            else:
                yield from problems(one, inner, f"{place}/{name}")
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from problems(one, rules.get("items", {}), f"{place}/{at}")


def described(rules, place=""):
    """The places of all fields of a schema, with a star for what is repeated, "=null" for nulls.

    Fields of a schema that is referred to are left out: it has tests of its own.
    """
    if "null" in rules.get("type", ()):
        yield f"{place}{NULL}"
    for name, inner in rules.get("properties", {}).items():
        yield f"{place}/{name}"
        yield from described(inner, f"{place}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(rules.get(key), dict):
            yield from described(rules[key], f"{place}/*")


def occurring(value, rules, place=""):
    """The places of those that a document has."""
    if value is None and "null" in rules.get("type", ()):
        yield f"{place}{NULL}"
    if isinstance(value, dict):
        for name, one in value.items():
            is_known = name in rules.get("properties", {})
            inner = rules["properties"][name] if is_known else rules.get("additionalProperties")
            here = f"{place}/{name if is_known else '*'}"
            if is_known:
                yield here
            yield from occurring(one, inner or {}, here)
    if isinstance(value, list):
        for one in value:
            yield from occurring(one, rules.get("items", {}), f"{place}/*")


def assert_legal(values, name):
    """Each answer is legal by the schema that it names."""
    for one in values if isinstance(values, list) else [values]:
        wrong = list(problems(one, schema(name)))
        assert not wrong, wrong


def assert_both_ways(values, name, elsewhere=None):
    """All answers are legal, and every field of the schema occurs in one.

    Fields below `elsewhere` are those of another schema, which has them tested.
    """
    rules, found = schema(name), set()
    for given in values:
        assert_legal(given, name)
        for one in given if isinstance(given, list) else [given]:
            found |= set(occurring(one, rules))
    absent = [one for one in sorted(set(described(rules)) - found)
              if elsewhere is None or not one.startswith(elsewhere)]  # fmt: skip
    assert not absent, absent

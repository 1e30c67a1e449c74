"""Files that are nearly right: valid content, spoiled as a value, as text or as bytes."""

import copy
import csv
import io
import json
import random

import yaml

HUGE = (10**30, -(10**18), 1e308, -1.5, 0, float("nan"), float("inf"))
TEXTS = (
    "",
    "8,000",
    "8.000",
    "1e999",
    "nan",
    "٣",
    "yes",
    "2026-02-30",
    "\ud800",
    "../x",
    "x" * 5000,
)
OTHER_TYPES = (None, True, [], {}, [[]], {"a": {"b": []}}, [None, 1, "x"])


def mutated(content, form, draw):
    """The bytes of a file of `content` in a format, spoiled in one to three places."""
    content = json.loads(json.dumps(content))
    for _ in range(draw.randint(0, 2)):
        content = copy.deepcopy(_spoiled(content, draw))
    text = written(content, form)
    return _bytes(text, draw) if draw.random() < 0.5 else text.encode("utf-8", "surrogatepass")


def written(content, form):
    """The text of `content` in a format."""
    if form == "yaml":
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    if form == "csv":
        return _csv(content)
    if form == "jsonl" and isinstance(content, list):
        return "".join(json.dumps(row) + "\n" for row in content)
    return _toml(content) if form == "toml" else json.dumps(content, indent=1)


def _places(value, above=()):
    """The keys that lead to every value inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*above, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*above, key))


def _spoiled(content, draw):
    """`content` with one value dropped, replaced, renamed, doubled, nested or added."""
    places = list(_places(content)) if isinstance(content, dict | list) else []
    if not places:
        return draw.choice((*OTHER_TYPES, *HUGE, *TEXTS))
    *above, key = draw.choice(places)
    holder = content
    for one in above:
        holder = holder[one]
    way = draw.randrange(6)
    if way == 0:
        del holder[key]
    elif way == 1:
        holder[key] = copy.deepcopy(draw.choice((*HUGE, *TEXTS, *OTHER_TYPES)))
    elif isinstance(holder, list):
        holder.append(holder[key]) if way < 4 else holder.insert(
            0, copy.deepcopy(draw.choice(OTHER_TYPES))
        )
    elif way == 2:
        holder[_near(str(key), draw)] = holder.pop(key)
    elif way == 3:
        holder[key] = [holder[key]]
    elif way == 4:
        holder[key] = {key: holder[key]}
    else:
        holder[draw.choice(("unknown", "", "a.b", "\x1b[2J", _near(str(key), draw)))] = holder[key]
    return content


def _near(name, draw):
    at = draw.randrange(len(name) + 1)
    return draw.choice((name[:at] + name[at + 1 :], name[:at] + "x" + name[at:], name.upper()))


def _bytes(text, draw):
    """The bytes of `text`, with one fault of files."""
    stored = text.encode("utf-8", "surrogatepass")
    at = draw.randrange(len(stored) + 1)
    lines = stored.splitlines(keepends=True)
    line = draw.choice(lines) if lines else b""
    return draw.choice(
        (
            lambda: b"\xef\xbb\xbf" + stored,
            lambda: stored.replace(b"\n", b"\r\n"),
            lambda: stored.replace(b"\n", b"\r"),
            lambda: stored[:at],
            lambda: stored[:at] + b"\x00" + stored[at:],
            lambda: stored[:at] + b"\xff\xfe" + stored[at:],
            lambda: stored[:at] + draw.choice((b"\x1b", b"\x07", "\u2028".encode())) + stored[at:],
            lambda: stored[:at] + bytes([draw.randrange(256)]) + stored[at + 1 :],
            lambda: stored[:at] + draw.choice(b"[]{}\"',:;-&*!|>#%@\t ").to_bytes() + stored[at:],
            lambda: stored.replace(line, line * 2, 1) if line else stored,
            lambda: stored[:at] + draw.choice((b"[", b"{", b'{"a":')) * 3000 + stored[at:],
            lambda: text.encode(draw.choice(("utf-16", "utf-16-le", "utf-32")), "surrogatepass"),
            lambda: random.Random(at).randbytes(at % 300),  # noqa: S311  no secret
            lambda: b"",
        )
    )()


def _csv(rows):
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [rows]
    names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = [row.get(name) if isinstance(row, dict) else row for name in names]
        writer.writerow([";".join(map(str, c)) if isinstance(c, list) else c for c in cells])
    return table.getvalue()


def _toml(content):
    """TOML of `content`, a line for each field of a table; a list is one of tables `row`."""
    if isinstance(content, list):
        tables = [row if isinstance(row, dict) else {"row": row} for row in content]
        return "".join("[[row]]\n" + _toml(table) for table in tables)
    if not isinstance(content, dict):
        return f"value = {_toml_value(content)}\n"
    pairs = [(json.dumps(name), one) for name, one in content.items() if one is not None]
    return "".join(f"{name} = {_toml_value(one)}\n" for name, one in pairs)


def _toml_value(value):
    if isinstance(value, dict):
        inner = (f"{json.dumps(name)} = {_toml_value(one)}" for name, one in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(one) for one in value if one is not None) + "]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")

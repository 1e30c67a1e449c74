"""Writes the table of PJRT's structs from OpenXLA's header: `from_header.py HEADER...`.

The headers are `xla/pjrt/c/pjrt_c_api.h` and those of extensions, which follow it. The table keeps
what a binary interface is made of: names, order and sizes of fields, slots, enumerations. The
headers' text and comments stay where they are.
"""

import re
import sys
from pathlib import Path

TABLE = Path(__file__).parents[3] / "src" / "trnsim" / "jax" / "pjrt" / "structs.txt"
SIZED = {
    "size_t": "size",
    "int64_t": "i64",
    "uint64_t": "u64",
    "int32_t": "i32",
    "int": "i32",
    "bool": "bool",
    "float": "f32",
    "uintptr_t": "size",
    "intptr_t": "size",
}
POINTERS = set()
"""Names of types that are pointers to functions."""
HEAD = """\
# Structs, slots and enumerations of PJRT {major}.{minor}: tests/jax/pjrt/from_header.py made them.
# struct NAME: field=type ...; a type is ptr, size, i32, i64, u64, bool, f32, a struct, or
# name:type|name:type (a union). Source: OpenXLA, xla/pjrt/c/pjrt_c_api.h and its extensions.
"""


def text_of(path):
    """A header without comments and preprocessor lines, functions as pointers."""
    text = re.sub(
        r"//[^\n]*|/\*.*?\*/", "", Path(path).read_text(encoding="utf-8"), flags=re.DOTALL
    )
    return text.replace("PJRT_NO_DISCARD", "")


def enumerations(text):
    """The members of each enumeration, numbered as C numbers them."""
    for body, name in re.findall(r"typedef enum\s*\{(.*?)\}\s*(\w+);", text, re.DOTALL):
        members, value = [], 0
        for entry in filter(None, (part.strip() for part in body.split(","))):
            member, _, given = (part.strip() for part in entry.partition("="))
            value = int(given) if given else value
            members.append((member, value))
            value += 1
        yield name, members


def kind(declared, structs, enums):
    """The type of a field's declaration."""
    if "*" in declared:
        return "ptr"
    name = declared.replace("const ", "").split()[-1]
    if name in SIZED:
        return SIZED[name]
    if name in enums:
        return "i32"
    if name in structs:
        return name.removeprefix("PJRT_")
    if name in POINTERS:
        return "ptr"
    raise ValueError(f"no type for {declared!r}")


def fields(body, structs, enums):
    """Names and types of the fields in a struct's body."""
    body = re.sub(
        r"union\s*\{(.*?)\}\s*;",
        lambda found: f"UNION<{found.group(1).replace(';', '&')}>;",
        body,
        flags=re.DOTALL,
    )
    for part in filter(None, (" ".join(entry.split()) for entry in body.split(";"))):
        if part.startswith("UNION<"):
            members = [one.strip() for one in part[6:-1].split("&") if one.strip()]
            found = (member(one, structs, enums) for one in members)
            yield "either", "|".join(f"{name}:{type_}" for name, type_ in found)
        else:
            yield member(part, structs, enums)


def member(part, structs, enums):
    """Name and type of one field."""
    slot = re.fullmatch(r"_PJRT_API_STRUCT_FIELD\( ?(\w+) ?\)", part)
    if slot:
        return slot.group(1).removeprefix("PJRT_"), "ptr"
    function = re.search(r"\(\*(\w+)\)", part)
    if function:
        return function.group(1), "ptr"
    declared, name = re.fullmatch(r"(.*?[\s*])(\w+)", part).groups()
    return name.removeprefix("PJRT_"), kind(declared.strip(), structs, enums)


def table(headers):
    """The whole table."""
    text = "\n".join(map(text_of, headers))
    POINTERS.update(re.findall(r"typedef [^;{]*?\(\*(\w+)\)\(", text))
    enums = dict(enumerations(text))
    bodies = re.findall(r"struct (PJRT_\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", text)
    names = {name for name, _ in bodies}
    last = dict(re.findall(r"PJRT_DEFINE_STRUCT_TRAITS\(\s*(\w+),\s*(\w+)\s*\)", text))
    version = {
        which: re.search(rf"#define PJRT_API_{which} (\d+)", text).group(1)
        for which in ("MAJOR", "MINOR")
    }
    lines = [HEAD.format(major=version["MAJOR"], minor=version["MINOR"])]
    lines.append(f"version PJRT: major={version['MAJOR']} minor={version['MINOR']}\n")
    for name, members in enums.items():
        prefix = re.compile(f"{name}_|{name.removesuffix('_Type')}_k|PJRT_{name}_k")
        listed = (f"{prefix.sub('', one)}={value}" for one, value in members)
        lines.append(f"enum {name.removeprefix('PJRT_')}: {' '.join(listed)}\n")
    for name, body in bodies:
        found = list(fields(body, names, enums))
        final = last.get(name, "").removeprefix("PJRT_")
        if name in last and final != found[-1][0]:
            raise ValueError(f"{name} ends with {found[-1][0]}, its traits say {final}")
        listed = " ".join(f"{field}={type_}" for field, type_ in found)
        lines.append(f"struct {name.removeprefix('PJRT_')}: {listed}\n")
    return "".join(lines)


if __name__ == "__main__":
    TABLE.write_text(table(sys.argv[1:]), encoding="utf-8")

"""Resources of CloudFormation templates as the documents of the services' own APIs.

Names of properties begin with a capital in CloudFormation, and with a small letter in the APIs of
ECS and Batch. Functions are read as text of `Fn::Sub` with the same meaning: `!Ref Name` is
"${Name}", `!GetAtt A.B` is "${A.B}", and `!Join` is the text of its parts. Such text is a
template's value.
Sources: CloudFormation user guide, "Resource and property types" and "Intrinsic functions".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from trnsim.reader import FileContent, SourcePlace
from trnsim.reader.parsed import Keys, ParsedText

_CAPITALS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]")
"""Capitals that are small in the API: "EFS" of "EFSVolumeConfiguration", "J" of "JobName"."""
_FREE_NAMES: Final = (
    *("parameters", "options", "dockerLabels", "tags", "limits", "requests"),
    *("labels", "annotations"),
)
"""Mappings whose names a user chooses."""
_FUNCTIONS: Final = ("!", "Fn::")


def resources(root: SourcePlace, kind: str, name: str) -> Iterator[SourcePlace]:
    """The properties of a template's resources of a type, as documents of the service's API.

    A resource without a name of its own has its logical name.

    Args:
        root: the document.
        kind: the type, such as "AWS::Batch::JobDefinition".
        name: the field of the API that names the resource; its first letter shows whether names
            of the API begin with a capital.
    """
    rows = root.value.get("Resources") if isinstance(root.value, dict) else None
    for logical_name, row in rows.items() if isinstance(rows, dict) else ():
        if not isinstance(row, dict) or row.get("Type") != kind:
            continue
        properties = row.get("Properties")
        if isinstance(properties, dict) and not _function(properties):
            place = root.inner("Resources").inner(logical_name).inner("Properties")
            yield _document(place, str(logical_name), name)


def _document(place: SourcePlace, logical_name: str, name: str) -> SourcePlace:
    is_lower_case = name[0].islower()
    content = _convert(place.value, is_lower_case)
    content.setdefault(name, logical_name)

    def line_of(keys: Keys) -> int:
        template_keys = _template_keys(place.value, keys, is_lower_case)
        parent = (
            place.keys if template_keys else place.keys[:-1]
        )  # the logical name is the resource's key
        return place.document.parsed.line_of((*parent, *template_keys))

    return FileContent(place.document.file, ParsedText(content, line_of), place.document.fix).root


def _convert(value: Any, is_lower_case: bool) -> Any:
    if isinstance(value, list):
        return [_convert(item, is_lower_case) for item in value]
    if not isinstance(value, dict):
        return value
    if _function(value):
        return _substitution(value)
    content = {}
    for key, part in value.items():
        name = _api_spelling(str(key)) if is_lower_case else str(key)
        content[name] = _convert(part, is_lower_case and name not in _FREE_NAMES)
    return content


def _template_keys(value: Any, keys: Keys, is_lower_case: bool) -> Keys:
    """The keys in the template of the value that has `keys` in the API's document."""
    template_keys: list[str | int] = []
    part: Any = value
    for key in keys:
        if isinstance(part, dict) and not _function(part):
            name = next(
                (n for n in part if key in (n, _api_spelling(str(n)) if is_lower_case else n)), None
            )
            if name is None:
                break
            template_keys.append(name)
            part = part[name]
        elif isinstance(part, list) and isinstance(key, int) and key < len(part):
            template_keys.append(key)
            part = part[key]
        else:
            break
    return tuple(template_keys)


def _api_spelling(name: str) -> str:
    return _CAPITALS.sub(lambda word: word.group().lower(), name, count=1) if name else name


def _function(value: dict[Any, Any]) -> str:
    """Name of the function that a mapping with one key represents; "" for another mapping."""
    name = str(next(iter(value))) if len(value) == 1 else ""
    return name if name == "Ref" or name.startswith(_FUNCTIONS) else ""


def _substitution(value: Any) -> str:
    """The text of `Fn::Sub` that has the meaning of a value."""
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    function = _function(value)
    name = function.removeprefix("!").removeprefix("Fn::")
    argument = value[function] if function else value
    items = argument if isinstance(argument, list) and argument else [argument]
    if name == "Ref" and isinstance(argument, str):
        return f"${{{argument}}}"
    if name == "GetAtt" and all(isinstance(item, str) for item in items):
        return f"${{{'.'.join(map(str, items))}}}"
    if name == "Sub" and isinstance(items[0], str):
        return str(items[0])
    if name == "Join" and items[1:] and isinstance(items[-1], list):
        return str(items[0]).join(_substitution(item) for item in items[-1])
    return f"${{{name} {json.dumps(argument, ensure_ascii=False, default=str)}}}"

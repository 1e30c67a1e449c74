"""YAML: text, lists and mappings, of one document; no tag makes an object."""

from __future__ import annotations

import math
import re
from functools import reduce
from operator import or_
from typing import Any, Final

import yaml

from trnsim.reader.parsed import Keys, Malformed, ParsedText
from trnsim.reader.yaml_nodes import compose_documents

_EMPTY: Final = ("", "~", "null", "Null", "NULL")
"""Plain scalars that stand for no value. Source: YAML 1.2.2, section 10.3.2."""
_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")
_BOOLEANS: Final = {
    word: name in _TRUE
    for name in (*_TRUE, *_FALSE)
    for word in (name, name.capitalize(), name.upper())
}
"""Plain scalars that are truth values to PyYAML and to Kubernetes. Source: YAML 1.1, bool."""
_WHOLE: Final = re.compile(r"[-+]?\d{1,30}")
_FRACTION: Final = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")
_LEAST_VALUES: Final = 50_000
"""Values that every text may have, each alias counted with all that it repeats. A longer text may
have as many as its characters, which without aliases it cannot exceed."""
_MERGE: Final = "<<"
"""The key whose mappings are merged into its own mapping, whose other keys take precedence.

Source: yaml.org, Merge Key Language-Independent Type for YAML Version 1.1.
"""
_MERGE_FIX: Final = "name a mapping by its anchor: '<<: *defaults'"
_TABS_FIX: Final = "indent with spaces"
_INDENT_FIX: Final = "begin the line below the lines of its block, or quote the text before it"
_MARKS_FIX: Final = "close what is open, and put a text with : # , [ ] { or } in quotes"


def parse_yaml(text: str) -> ParsedText:
    """The values of a YAML text: None for null, and else text.

    Raises:
        Malformed: it is no YAML, holds several documents or too many values, or names a key twice.
    """
    nodes = _documents(text, is_single=True)
    if not nodes:
        raise Malformed(1, "the file is empty")
    return _parsed_text(nodes[0], _Nodes(text))


def parse_yaml_documents(text: str) -> list[ParsedText]:
    """The documents of a YAML text, typed as JSON is: text, numbers, True, False, None.

    A plain scalar is a number or a truth value where YAML's core schema says so; a quoted scalar is
    text. A value with a local tag is a mapping of the tag: ``!Ref Name`` is ``{"!Ref": "Name"}``.
    The merge key ``<<`` adds the fields of other mappings.
    Source: YAML 1.2.2, section 10.3.2.

    Raises:
        Malformed: it is no YAML, holds too many values, names a key twice, or merges no mapping.
    """
    return [
        _parsed_text(node, _TypedNodes(text)) for node in _documents(text) if not _is_blank(node)
    ]


def _documents(text: str, *, is_single: bool = False) -> list[yaml.Node]:
    """The documents of a text, or its only one.

    Raises:
        Malformed: the text is no YAML.
    """
    try:
        return compose_documents(text, is_single=is_single)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = re.sub("'<([a-z ]+)>'", r"the \1", str(error.problem))  # '<stream end>' is no text
        fix = _TABS_FIX if "'\\t'" in why else _MARKS_FIX
        if "block mapping start" in why or "block sequence start" in why:
            fix = _INDENT_FIX
        raise Malformed(mark.line + 1 if mark else 1, f"no YAML: {why}", fix) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        why = f"unacceptable character #x{ord(text[error.position]):04x}"
        raise Malformed(line, f"no YAML: {why}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Malformed(1, f"no YAML: {str(error).partition(chr(10))[0]}") from error


def _parsed_text(node: yaml.Node, nodes: _Nodes) -> ParsedText:
    try:
        content = nodes.value(node)
    except RecursionError as error:
        raise Malformed(1, "no YAML: nested too deeply, or within itself") from error
    return ParsedText(content, lambda keys: _line(node, keys))


def _is_blank(node: yaml.Node) -> bool:
    """True for a document without a value, such as a document of comments alone."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in _EMPTY


class _Nodes:
    """The nodes of one document as values, whose number the length of the text limits."""

    def __init__(self, text: str) -> None:
        self.count = 0
        self.most_values = max(_LEAST_VALUES, len(text))

    def value(self, node: yaml.Node) -> Any:
        """The value of a node."""
        self.count += 1
        if self.count > self.most_values:
            why = f"more than {self.most_values:,} values; anchors that name anchors multiply"
            raise Malformed(node.start_mark.line + 1, why)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        return self.scalar(node)

    def scalar(self, node: yaml.Node) -> Any:
        """The value of a scalar."""
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return None if is_plain and node.value in _EMPTY else str(node.value).strip()

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise Malformed(line, "a key is text, not a list or a mapping")
            if key.value in values:
                raise Malformed(
                    line,
                    f"{key.value} is given twice, first in line {lines[key.value]}",
                    "leave one of them out, or begin a new item with a dash",
                )
            values[key.value], lines[key.value] = self.value(value), line
        return values


class _TypedNodes(_Nodes):
    """The nodes of one document, typed as JSON is."""

    def value(self, node: yaml.Node) -> Any:
        """The value of a node; the mapping of its tag to the value, for a node with a local tag."""
        value = super().value(node)
        return {node.tag: value} if re.fullmatch(r"![\w:.-]+", node.tag or "") else value

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """The mapping, with the fields of the mappings that its merge key names."""
        values = super()._mapping(node)
        merge_key = next((key for key, _ in node.value if _is_merge_key(key)), None)
        if merge_key is None:
            return values
        value = values.pop(_MERGE)
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            line = merge_key.start_mark.line + 1
            raise Malformed(line, f"{_MERGE} is no mapping, and no list of mappings", _MERGE_FIX)
        return reduce(or_, reversed(sources), {}) | values

    def scalar(self, node: yaml.Node) -> Any:
        """The value of a scalar; a quoted scalar is text."""
        text = str(node.value)
        if not isinstance(node, yaml.ScalarNode) or node.style is not None:
            return text
        if text in _EMPTY:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _WHOLE.fullmatch(text):
            return int(text)
        number = float(text) if _FRACTION.fullmatch(text) else math.inf
        return number if math.isfinite(number) else text


def _is_merge_key(key: yaml.Node) -> bool:
    """True for a plain `<<`, which names mappings whose fields the mapping has too."""
    return isinstance(key, yaml.ScalarNode) and key.style is None and key.value == _MERGE


def _line(node: yaml.Node, keys: Keys) -> int:
    """The line of the value under `keys`: of its name in a mapping; if missing, of its parent."""
    line = node.start_mark.line
    for key in keys:
        if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == key), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
    return line + 1

"""YAML files whose every value knows its line, so that an error can name it.

A value is text, a list or a mapping. What text stands for (a number, a date, yes or no) is decided
by who reads it: YAML itself reads ``no`` as false, ``1e9`` as text and ``8_000`` as 8000.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from trnsim import files
from trnsim.errors import BadInput, SourceLine

_EMPTY: Final = ("", "~", "null", "Null", "NULL")
"""What a plain scalar writes for no value. Source: YAML 1.2.2, section 10.3.2."""
_MOST_VALUES: Final = 50_000
"""More than any file that a user writes; an anchor that is repeated counts each time."""


@dataclass(frozen=True)
class Value:
    """A value of a YAML file.

    Attributes:
        content: text ("" for null), a tuple of values, or a mapping by key.
        line: where it starts; of a value in a mapping, the line of its key.
    """

    content: str | tuple[Value, ...] | dict[str, Value]
    line: SourceLine


def read(path: Path | str, fix: str = "") -> Value:
    """What the YAML file at `path` holds.

    Raises:
        BadInput: it cannot be read, is no YAML, holds several documents or too many values, or
            names a key twice.
    """
    text = files.read_text(path, fix)
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _bad(path, mark.line if mark else 0, f"no YAML: {error.problem}", fix) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _bad(path, 0, f"no YAML: {str(error).partition(chr(10))[0]}", fix) from error
    if node is None:
        raise BadInput(f"{path} is empty", fix=fix)
    try:
        return _Nodes(path, fix).value(node, node.start_mark.line)
    except RecursionError as error:
        raise _bad(path, 0, "no YAML: nested too deeply, or within itself", fix) from error


class _Nodes:
    """The nodes of one file as values, of which there are not more than `_MOST_VALUES`."""

    def __init__(self, path: Path | str, fix: str) -> None:
        self.path = path
        self.fix = fix
        self.count = 0

    def value(self, node: yaml.Node, line: int) -> Value:
        """The value of a node that starts in `line`, from 0."""
        self.count += 1
        if self.count > _MOST_VALUES:
            what = f"more than {_MOST_VALUES:,} values; anchors that name anchors multiply"
            raise _bad(self.path, line, what, self.fix)
        at = SourceLine(str(self.path), line + 1)
        if isinstance(node, yaml.MappingNode):
            return Value(self._mapping(node), at)
        if isinstance(node, yaml.SequenceNode):
            return Value(tuple(self.value(one, one.start_mark.line) for one in node.value), at)
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return Value("" if is_plain and node.value in _EMPTY else str(node.value), at)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in node.value:
            line = key.start_mark.line
            if not isinstance(key, yaml.ScalarNode):
                raise _bad(self.path, line, "a key is text, not a list or a mapping", self.fix)
            if key.value in found:
                first = found[key.value].line.line
                what = f"{key.value} is given twice, first in line {first}"
                raise _bad(self.path, line, what, self.fix)
            found[key.value] = self.value(value, line)
        return found


def _bad(path: Path | str, line: int, what: str, fix: str) -> BadInput:
    at = SourceLine(str(path), line + 1)
    return BadInput(f"{at}: {what}", fix=fix, line=at)

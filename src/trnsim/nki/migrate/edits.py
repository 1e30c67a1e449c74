"""Edits of a text at nodes of its syntax tree; all other characters stay as they are."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import accumulate
from typing import NamedTuple

from trnsim.nki.migrate.file import SourceFile


class Edit(NamedTuple):
    """The characters from `start` to `end` of a text become `text`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap."""
    parts, end = [], 0
    for edit in sorted(edits):
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def overlap(edits: Iterable[Edit], others: Sequence[Edit]) -> bool:
    """True if one of `edits` shares characters, or a place to insert, with one of `others`."""
    return any(
        (edit.start < other.end and other.start < edit.end) or edit.start == other.start
        for edit in edits
        for other in others
    )


class Places:
    """Character offsets of a file's nodes in its text, and edits of these nodes."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.text = file.text
        self._lines = StringIO(file.text, newline="").readlines()  # as Python's parser counts
        self._starts = [0, *accumulate(map(len, self._lines))]

    def start(self, node: ast.AST) -> int:
        """The offset of the first character of a node."""
        return self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def end(self, node: ast.AST) -> int:
        """The offset of the first character after a node."""
        return self._offset(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the line that has `offset`."""
        return self._starts[bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """The offset of the end of the line that has `offset`, before its line feed."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def indent(self, node: ast.AST) -> str:
        """The white space before the line of a node."""
        line = self._lines[getattr(node, "lineno", 1) - 1]
        return line[: len(line) - len(line.lstrip())]

    def _offset(self, line: int, column: int) -> int:
        text_before = self._lines[line - 1].encode()[:column].decode() if column else ""
        return self._starts[line - 1] + len(text_before)

    # Edits

    def replacement(self, node: ast.AST, text: str) -> Edit:
        """The edit that replaces a node by `text`."""
        return Edit(self.start(node), self.end(node), text)

    def insert_above(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        """The edit that adds lines above a statement, indented as it is."""
        decorators = getattr(statement, "decorator_list", [])
        first_node = min([statement, *decorators], key=self.start)
        offset = self.line_start(self.start(first_node))
        indent = self.indent(first_node)
        return Edit(offset, offset, "".join(f"{indent}{line}\n" for line in lines))

    def insert_below(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        """The edit that adds lines below a statement, indented as it is."""
        offset = self.line_end(self.end(statement))
        indent = self.indent(statement)
        return Edit(offset, offset, "".join(f"\n{indent}{line}".rstrip(" ") for line in lines))

    def arguments(
        self, call: ast.Call, removals: Sequence[ast.AST], additions: Sequence[str] = ()
    ) -> list[Edit]:
        """The edits that remove arguments of a call and add others at its end.

        Args:
            call: the call.
            removals: nodes among its arguments.
            additions: texts of new arguments.
        """
        all_arguments = sorted([*call.args, *call.keywords], key=self.start)
        other_arguments = [argument for argument in all_arguments if argument not in removals]
        if not other_arguments:
            opening = self.text.index("(", self.end(call.func))
            return [Edit(opening + 1, self.end(call) - 1, ", ".join(additions))]
        edits = []
        last_end = self.end(other_arguments[-1])
        for number, argument in enumerate(all_arguments):
            if argument not in removals or self.start(argument) > last_end:
                continue
            edits.append(
                self._without_comment(self.start(argument), self.start(all_arguments[number + 1]))
            )
        last_removals = [removal for removal in removals if self.start(removal) > last_end]
        if last_removals:
            edits.append(self._without_comment(last_end, max(map(self.end, last_removals))))
        if additions:
            is_on_own_line = self.text[
                self.line_start(last_end) : self.start(other_arguments[-1])
            ].isspace()
            gap = f",\n{self.indent(other_arguments[-1])}" if is_on_own_line else ", "
            edits.append(Edit(last_end, last_end, "".join(gap + text for text in additions)))
        return sorted(edits)

    def _without_comment(self, start: int, end: int) -> Edit:
        """The edit that deletes a part of a call, except its comments."""
        lines = self.text[start:end].splitlines(keepends=True)
        comments = ["  " + line[line.index("#") :] for line in lines if _has_comment(line)]
        return Edit(start, end, "".join(comments))


def _has_comment(line: str) -> bool:
    """True if a line of a call ends with a comment, which no string of it contains."""
    text_before, mark, _ = line.partition("#")
    return bool(mark) and text_before.count('"') % 2 == 0 and text_before.count("'") % 2 == 0

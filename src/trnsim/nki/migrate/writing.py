"""The file for a later version: mechanical rewrites, and comments for the rest."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from trnsim.behaviours import Version, language
from trnsim.nki.dialect import MARKER
from trnsim.nki.migrate import copies, loops
from trnsim.nki.migrate.edits import Edit, Places, apply_edits, overlap
from trnsim.nki.migrate.file import SourceFile
from trnsim.nki.migrate.report import Report, Statement, statements_of
from trnsim.nki.migrate.rewrites import REWRITES, ByHand

__all__ = ["RewrittenFile", "manual_reason", "rewritten_file"]

_LOOPS: Final = {language.WHILE_REGISTER.name, language.DYNAMIC_LOOPS_WARN.name, "nl.dynamic_range"}
_REWRITE_MODULES: Final = (copies, loops)
"""Modules imported so that they register their rewrites."""
_MOST_PASSES: Final = 1000
_WIDTH: Final = 96
_LINE_FEED: Final = re.compile(r"(?<!\r)\n")
"""A line feed without a carriage return before it."""


@dataclass(frozen=True)
class RewrittenFile:
    """A file for a later version.

    Attributes:
        text: the text of the file.
        rewrite_count: number of places that were rewritten.
        commented_statements: statements that became comments, with their lines before comments
            were inserted.
    """

    text: str
    rewrite_count: int
    commented_statements: Sequence[Statement]


def manual_reason(report: Report, statement: Statement) -> str:
    """Why the user has to edit a statement's place; "" if its rewrite is mechanical."""
    if statement.row is language.UNMIXED:
        return ""
    try:
        _edits(Places(report.file), statement)
    except ByHand as reason:
        return str(reason)
    return ""


def rewritten_file(report: Report) -> RewrittenFile:
    """The file of a report, rewritten for its target.

    Edits that overlap are made in several passes; each pass parses the text of the previous one.
    """
    text, count = report.file.text, 0
    for _ in range(_MOST_PASSES):
        file = SourceFile(text)
        edits = _pass_edits(file, report)
        if not edits:
            break
        text = apply_edits(text, [edit for statement_edits in edits for edit in statement_edits])
        count += len(edits)
    file = SourceFile(text)
    statements = _statements_to_comment(file, _open_statements(file, report))
    text = apply_edits(text, _comments(Places(file), statements, report.target))
    return RewrittenFile(
        _with_line_ends(_with_target_marker(text, report.target), report), count, statements
    )


def _with_line_ends(text: str, report: Report) -> str:
    """The text with lines that end in CRLF, if all lines of the report's file do."""
    original = report.file.text
    if "\r\n" not in original or _LINE_FEED.search(original):
        return text
    return _LINE_FEED.sub("\r\n", text)


def _open_statements(file: SourceFile, report: Report) -> list[Statement]:
    """The statements that remain in a partly rewritten file and hold in the target.

    Statements about mixed versions are left out, since all kernels become the target's version.
    """
    statements = statements_of(file, report.kernels, report.target)
    return [
        statement
        for statement in statements
        if statement.holds_in(report.target) and statement.row is not language.UNMIXED
    ]


def _pass_edits(file: SourceFile, report: Report) -> list[list[Edit]]:
    """The edits of one pass, a list for each statement, without edits that would overlap."""
    places, accepted_edits = Places(file), list[list[Edit]]()
    has_loop = False
    for statement in _open_statements(file, report):
        is_loop = statement.row.name in _LOOPS
        if is_loop and has_loop:
            continue  # its function needs a name that no earlier function has: in the next pass
        try:
            edits = _edits(places, statement)
        except ByHand:
            continue
        if not overlap(
            edits, [edit for statement_edits in accepted_edits for edit in statement_edits]
        ):
            accepted_edits.append(edits)
            has_loop |= is_loop
    return accepted_edits


def _edits(places: Places, statement: Statement) -> list[Edit]:
    rewrite = REWRITES.get(statement.row.name)
    if rewrite is None:
        raise ByHand(statement.row.instead)
    if not statement.trace.is_certain:
        raise ByHand("the text does not tell whether it is so")
    return rewrite(places, statement.trace)


def _statements_to_comment(file: SourceFile, statements: Sequence[Statement]) -> list[Statement]:
    """Statements that get a comment; uncertain ones only once for each row and function."""
    first_statements: dict[object, Statement] = {}
    for statement in statements:
        node = statement.trace.node
        place = node if statement.trace.is_certain else file.function_of(node)
        first_statements.setdefault((statement.row.name, place), statement)
    return list(first_statements.values())


def _comments(places: Places, statements: Sequence[Statement], target: Version) -> list[Edit]:
    """The edits that put a comment above each place, without repeating a comment that is there."""
    comments: dict[int, tuple[ast.stmt, list[str]]] = {}
    text = places.text.split("\n")
    for statement in statements:
        node = places.file.statement(statement.trace.node)
        if node is None:
            continue
        perhaps = "" if statement.trace.is_certain else "perhaps, here and below: "
        words = f"nki {target.name}: {perhaps}{statement.says}; {statement.row.instead}"
        start = places.insert_above(node, []).start
        comment = [f"# {line}" for line in wrap(words, _WIDTH - len(places.indent(node)))]
        number = places.text.count("\n", 0, start)
        previous_lines = text[max(0, number - 40) : number]
        if not _has_comment(previous_lines, comment):
            comment_lines = comments.setdefault(start, (node, []))[1]
            comment_lines += comment if not _has_comment(comment_lines, comment) else []
    return [places.insert_above(node, comment) for node, comment in comments.values()]


def _has_comment(lines: Sequence[str], comment: Sequence[str]) -> bool:
    """True if the comment block at the end of `lines` contains `comment`."""
    block: list[str] = []
    for line in reversed(lines):
        if not line.strip().startswith("#"):
            break
        block.insert(0, line.strip())
    return "\n".join(comment) in "\n".join(block)


def _with_target_marker(text: str, target: Version) -> str:
    """The text with its line ``# nki: 0.2`` for the target."""
    for match in MARKER.finditer(text):
        if match[1] != target.name:
            return _with_target_marker(
                text[: match.start(1)] + target.name + text[match.end(1) :], target
            )
    return text

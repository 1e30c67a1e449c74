"""An answer of `trnsim check` as marks at the lines of a file, and times beside its lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Final, Literal

from trnsim.foreign_text import syntax_tree
from trnsim.gate.kernel_file import INPUTS, NOTHING_TO_CHECK
from trnsim.profile.units import count_text, time_text

Severity = Literal["error", "warning", "information"]
_WARNED: Final = ("race", "memory")
"""Kinds of findings that are warnings unless the check fails by them."""
_SHOWN_CHARS: Final = 2_000
_ERROR: Final = "trnsim: error: "
_TRACEBACK: Final = "Traceback (most recent call last):"
_NKI: Final = ("nki", "neuronxcc")


@dataclass(frozen=True)
class LineMark:
    """A fault or a notice at a line of a file.

    Attributes:
        line: the line, from 1.
        text: the finding, its fix and its source.
        severity: the severity of the diagnostic.
        kind: the kind of a finding, "syntax" or "refused".
    """

    line: int
    text: str
    severity: Severity
    kind: str


@dataclass(frozen=True)
class LineHint:
    """The time of a line.

    Attributes:
        line: the line, from 1.
        label: its time on the critical path, and the part of it that is waiting.
        details: a row for each kernel that issues instructions of the line.
    """

    line: int
    label: str
    details: str


def syntax_mark(content: bytes) -> LineMark | None:
    """The mark of a file that does not parse; None for a file that parses."""
    try:
        syntax_tree(content)
    except SyntaxError as error:
        return LineMark(error.lineno or 1, f"not valid Python: {error.msg}", "error", "syntax")
    except (ValueError, RecursionError, MemoryError) as error:
        return LineMark(1, f"not valid Python: {error}", "error", "syntax")
    return None


def imports_nki(content: bytes) -> bool:
    """True for a file, which parses, that imports NKI."""
    for node in ast.walk(syntax_tree(content)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] in _NKI for name in names):
            return True
    return False


def marks(values: Mapping[str, Any], file: str, content: bytes) -> list[LineMark]:
    """The marks of an answer at the lines of one of its files, each once.

    A finding without a line, or at a line of another file, stands at the kernel's definition.

    Args:
        values: the answer of `trnsim check`.
        file: the file as the answer names it.
        content: its content.
    """
    definitions = _definitions(content)
    has_several_chips = len(values["chips"]) > 1
    rows = []
    for check in values["kernels"]:
        at_kernel = definitions.get(check["kernel"].partition("#")[0], 1)
        for finding in check["findings"]:
            text = (
                f"on {check['chip']}: {finding['text']}" if has_several_chips else finding["text"]
            )
            rows.append(_finding_mark(finding, text, file, at_kernel))
    for entry in values["unchecked"]:
        name = entry.rpartition(": ")[2]
        rows.append(_unchecked_mark(name, definitions.get(name, 1)))
    return list(dict.fromkeys(rows))


def _unchecked_mark(name: str, line: int) -> LineMark:
    text = f"not checked: define {name}{INPUTS}(), which returns a tuple of its arguments"
    return LineMark(line, text, "information", "unchecked")


def refusal_marks(reason: str, fix: str, file: str, content: bytes) -> list[LineMark]:
    """The marks of a file that cannot be checked; for a library of kernels a notice at each kernel.

    Args:
        reason: the command's error, with the frames of an error of the program.
        fix: the command's fix; "" without a fix.
        file: the file.
        content: its content, which parses.
    """
    if NOTHING_TO_CHECK not in reason:
        return [refusal_mark(reason, fix, file)]
    return [_unchecked_mark(node.name, node.lineno) for node in _kernels(content)]


def _kernels(content: bytes) -> list[ast.FunctionDef]:
    """The functions that a decorator called `jit` makes kernels, in the order of the text."""
    kernels: list[ast.FunctionDef] = []
    for node in ast.walk(syntax_tree(content)):
        if isinstance(node, ast.FunctionDef):
            decorators = [
                decorator.func if isinstance(decorator, ast.Call) else decorator
                for decorator in node.decorator_list
            ]
            names = [getattr(name, "attr", getattr(name, "id", "")) for name in decorators]
            if "jit" in names:
                kernels.append(node)
    return sorted(kernels, key=lambda node: node.lineno)


def refusal_mark(reason: str, fix: str, file: str) -> LineMark:
    """The mark of a file that cannot be checked: an error at its line, or a warning at line 1.

    The arguments are as in `refusal_marks`.
    """
    line = _line_in(reason, file)
    reason = reason.rpartition(_ERROR)[2]
    if _TRACEBACK in reason:
        lines = reason.rpartition(_TRACEBACK)[2].strip("\n").splitlines()
        reason = "\n".join(dropwhile(lambda row: row.startswith(" "), lines))  # frames are indented
    text = reason.strip()[-_SHOWN_CHARS:] + (f"\nfix: {fix}" if fix else "")
    return LineMark(line or 1, text, "error" if line else "warning", "refused")


def hints(values: Mapping[str, Any], file: str) -> list[LineHint]:
    """The time beside each line of a file: the longest time of the kernels that issue the line."""
    rows_of: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    for check in values["kernels"]:
        for row in check["lines"]:
            if row["file"] == file:
                name = f"{check['kernel']} on {check['chip']}"
                rows_of.setdefault(row["line"], []).append((name, row))
    return [_hint(line, rows) for line, rows in sorted(rows_of.items())]


def _hint(line: int, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> LineHint:
    sorted_rows = sorted(rows, key=lambda pair: -pair[1]["critical_s"])
    details = [
        f"{name}: {_times(row)} on the critical path; its engines are busy for "
        f"{time_text(row['busy_s'])}; instructions: {count_text(row['instructions'])}"
        for name, row in sorted_rows
    ]
    return LineHint(line, _times(sorted_rows[0][1]), "\n".join(details))


def _times(row: Mapping[str, Any]) -> str:
    text = time_text(row["critical_s"])
    waiting_s = row["waiting_s"]
    return f"{text}, {time_text(waiting_s)} of it waiting" if waiting_s else text


def _finding_mark(finding: Mapping[str, Any], text: str, file: str, at_kernel: int) -> LineMark:
    parts = [text]
    if finding["fix"]:
        parts.append(f"fix: {finding['fix']}")
    if finding["source"]:
        parts.append(f"source: {finding['source']}")
    line = finding["line"] if finding["file"] == file else None
    if line is None and finding["line"] is not None:
        parts.append(f"at {finding['file']}:{finding['line']}")
    elif line is None:
        line = _line_in(text, file)
    kind, is_failure = finding["kind"], finding["failure"]
    severity: Severity = "error" if is_failure else "warning" if kind in _WARNED else "information"
    return LineMark(line or at_kernel, "\n".join(parts), severity, kind)


def _line_in(text: str, file: str) -> int | None:
    """The last line of a file that a text names, as FILE:LINE or as frames of Python do."""
    name = re.escape(re.split(r"[/\\]", file)[-1])
    lines = re.findall(rf'(?:^|[\s"/\\]){name}(?::|", line )(\d+)', text)
    return int(lines[-1]) if lines else None


def _definitions(content: bytes) -> dict[str, int]:
    """Function name -> line of its definition, in a file that parses."""
    return {
        node.name: node.lineno
        for node in ast.walk(syntax_tree(content))
        if isinstance(node, ast.FunctionDef)
    }

"""Restrictions of the language that only a kernel's source or signature shows, by version of NKI.

A kernel is checked for the restrictions of its version when it starts.

Source: nki/migration/index.rst, Language restrictions; neuronxcc.nki.* inside kernels.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from trnsim.behaviours import Behaviour, Version
from trnsim.behaviours.chosen import asked_version
from trnsim.behaviours.language import (
    IS_OF_NONE,
    MODE_OF_JIT,
    NO_BARE_STAR,
    OLD_NAMESPACE,
    OLD_NAMESPACE_WARNS,
    PLATFORM_TARGET,
)
from trnsim.errors import SourceLine
from trnsim.nki.dialect import code_of, text_of, versioned_uses
from trnsim.nki.forms import definitions_of
from trnsim.nki.notices import OlderFormWarning, refuse_or_warn
from trnsim.user_warnings import warn

_OLD_MODULES: Final = ("neuronxcc.nki.language", "neuronxcc.nki.isa")


def check_language(
    function: Callable[..., Any], options: dict[str, Any], line: SourceLine | None, version: Version
) -> None:
    """Refuse, or warn of, the forms of a kernel that `version` refuses or warns of.

    Args:
        function: the kernel's function.
        options: the options of `nki.jit`.
        line: the line of the function's definition.
        version: the version of NKI that the kernel follows.

    Raises:
        IllegalInstruction: with the line of the form.
    """
    if "platform_target" in options:
        usage = f"nki.jit(platform_target={options['platform_target']!r})"
        PLATFORM_TARGET.require(version, usage, line)
    if "mode" in options and asked_version() is not None and not version.follows(MODE_OF_JIT):
        _warn(MODE_OF_JIT, MODE_OF_JIT.otherwise, line)
    if version.follows(NO_BARE_STAR):
        _refuse_keyword_only(function, line, version)
    if version.follows(IS_OF_NONE):
        for place in identities_of(function):
            _refuse(IS_OF_NONE, version, "`is` with another operand than None", place)
    if not sys.modules.keys().isdisjoint(_OLD_MODULES):
        _check_namespace(function, version)


def identities_of(function: Callable[..., Any]) -> Iterator[SourceLine]:
    """The lines with an identity comparison, in a function and in functions that it names.

    The functions are of one file. `x is None` is left out: AWS's own library of NKI 0.3 has it in
    kernels for the chip (nki-library 2.29, attention_bwd.py).
    """
    code = code_of(function)
    if code is None:
        return
    text = text_of(code.co_filename)
    for number in _identities(text, code.co_name, code.co_firstlineno):
        yield SourceLine(code.co_filename, number)


@lru_cache(maxsize=256)
def _identities(text: str, name: str, first_line: int) -> tuple[int, ...]:
    """Line numbers of identity comparisons in a function of `text` and functions that it names."""
    try:
        definitions = definitions_of(text, (name, first_line))
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        sorted(
            node.lineno
            for definition in definitions
            for node in ast.walk(definition)
            if isinstance(node, ast.Compare) and _compares_identity(node)
        )
    )


def _compares_identity(node: ast.Compare) -> bool:
    """True for `is` and `is not` of two operands of which neither is None."""
    operands = [node.left, *node.comparators]
    return any(
        isinstance(operator, ast.Is | ast.IsNot)
        and not any(isinstance(o, ast.Constant) and o.value is None for o in pair)
        for operator, *pair in zip(node.ops, operands, operands[1:], strict=False)
    )


def _refuse_keyword_only(
    function: Callable[..., Any], line: SourceLine | None, version: Version
) -> None:
    code = code_of(function)
    if code is None or not code.co_kwonlyargcount:
        return
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if names:
        _refuse(NO_BARE_STAR, version, f"`*` before parameter `{names[0]}`", line)


def _check_namespace(function: Callable[..., Any], version: Version) -> None:
    """Refuse, or warn of, names of neuronxcc.nki in a kernel."""
    code = code_of(function)
    if code is None:
        return
    for use in versioned_uses(code.co_filename, (code.co_name, code.co_firstlineno)):
        if use.form != OLD_NAMESPACE.form:
            continue
        line = SourceLine(code.co_filename, use.line)
        OLD_NAMESPACE.require(version, "a name of neuronxcc.nki in a kernel", line)
        if version.follows(OLD_NAMESPACE_WARNS):
            _warn(OLD_NAMESPACE_WARNS, OLD_NAMESPACE_WARNS.rule, line)


def _refuse(row: Behaviour, version: Version, usage: str, line: SourceLine | None) -> None:
    reason = f"{usage} under {version}, where {row.rule}; so it is {row.span}"
    refuse_or_warn(reason, row.instead, row.source, line)


def _warn(row: Behaviour, reason: str, line: SourceLine | None) -> None:
    warn(f"{reason}\n  fix: {row.instead}\n  source: {row.source}", OlderFormWarning, line)

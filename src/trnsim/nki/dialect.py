"""The version of NKI of a kernel's file, and the version of the running kernel.

A form is a name of NKI or a way to call it that only some versions have. A file is of the version
that a line ``# nki: 0.4`` names, else of the newest version that has every form in the file. The
user's choice (`behaviours.chosen`) takes precedence over the version inferred in this way.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from trnsim.behaviours import LATEST, VERSIONS, Behaviour, Version, version_named
from trnsim.behaviours.chosen import VersionChoice, asked_version
from trnsim.behaviours.table import TABLE
from trnsim.errors import BadInput
from trnsim.nki.forms import Use, uses_of, words_of
from trnsim.program import has_current_core, running_core

MARKER: Final = re.compile(r"^[ \t]*#[ \t]*nki[ \t]*:[ \t]*(\S+)[ \t\r]*$", re.MULTILINE)
"""Pattern of a line ``# nki: 0.4``; its group is the version."""
ROW_OF_FORM: Final = {row.form: row for row in TABLE.values() if row.form}
"""For each form, its row in the table of behaviours."""
REMOVED_FORMS: Final = {form: row for form, row in ROW_OF_FORM.items() if row.until is not None}
"""For each form that a version removed, its row in the table of behaviours."""
_HINTS: Final = tuple(sorted({word for form in REMOVED_FORMS for word in words_of(form)}))
"""Words without which a file uses no form that a version removed."""
_NAME: Final = re.compile(r"(nl|nisa|ncc)[.]\w+")
_MOST_FILES: Final = 400
"""Maximum number of imported files, direct or indirect, that are searched for forms."""


def marked_version(function: Callable[..., Any]) -> VersionChoice | None:
    """The version of the line ``# nki: 0.4`` of a kernel's file; None without such a line.

    Raises:
        BadInput: for a version that does not exist, and for lines that differ.
    """
    file = file_of(function)
    text = text_of(file)
    names = dict.fromkeys(MARKER.findall(text))
    if not names:
        return None
    if len(names) > 1:
        raise BadInput(
            f"{file} is marked for several versions of NKI: {', '.join(names)}; legal: one",
            fix="keep one line such as `# nki: 0.4`, and move other kernels to their own files",
        )
    (name,) = names
    reason = f"`# nki: {name}` in {file}"
    return VersionChoice(version_named(name, reason), reason, True)


def inferred_version(function: Callable[..., Any]) -> VersionChoice:
    """The newest version in which every form exists that a kernel uses.

    Its forms are those of its function, and of the functions and classes of the file that the
    function names. Forms of imported files count too, unless no version would be left.

    Raises:
        BadInput: if no version has all forms of the kernel.
    """
    code = code_of(function)
    file = file_of(function)
    if code is not None and not text_of(file):
        uses = _uses_of_code(code)
    else:
        uses = versioned_uses(file, code and (code.co_name, code.co_firstlineno))
    candidates, reason = narrow_candidates(list(VERSIONS.values()), file, uses)
    if not candidates:
        refuse_contradiction(file, uses)
    for module in _modules_from(getattr(function, "__module__", "")):
        imported_file = module.__file__ or ""
        if candidates[-1] is not LATEST or imported_file == file:
            continue
        fewer_candidates, new_reason = narrow_candidates(
            candidates, imported_file, versioned_uses(imported_file)
        )
        if fewer_candidates and fewer_candidates[-1] is not candidates[-1]:
            candidates, reason = fewer_candidates, new_reason
    return VersionChoice(candidates[-1], reason, False)


def inferred_version_of_file(file: str) -> VersionChoice | None:
    """The newest version in which every form of a file exists; None if no version has them all.

    It is the latest version for a file without forms.
    """
    candidates, reason = narrow_candidates(list(VERSIONS.values()), file, versioned_uses(file))
    return VersionChoice(candidates[-1], reason, False) if candidates else None


def follows(behaviour: Behaviour) -> bool:
    """True if `behaviour` holds for the running kernel; outside kernels, in the chosen version."""
    return running_version().follows(behaviour)


def running_version() -> Version:
    """The version of the running kernel; outside kernels the chosen one, else the latest."""
    core = running_core()
    if core is not None:
        return core.core.nki
    choice = asked_version()
    return LATEST if choice is None else choice.version


def require(behaviour: Behaviour, usage: str) -> None:
    """Refuse `usage` if `behaviour` does not hold for the running kernel.

    Outside kernels it is refused only under a version that the user chose.

    Args:
        behaviour: the row of the table of behaviours.
        usage: the user's code, as the error quotes it.

    Raises:
        IllegalInstruction: with the row's reason and replacement.
    """
    if is_refused(behaviour):
        raise behaviour.refusal(running_version(), usage)


def is_refused(behaviour: Behaviour) -> bool:
    """True if `require` refuses programs that need `behaviour`."""
    is_free = not has_current_core() and asked_version() is None
    return not is_free and not running_version().follows(behaviour)


def needs(function: Callable[..., Any], behaviour: Behaviour) -> bool:
    """True if a kernel has a form that exists only in versions that follow `behaviour`."""
    code = code_of(function)
    text = "" if code is None else text_of(code.co_filename)
    try:
        uses = uses_of(text, code and (code.co_name, code.co_firstlineno))
    except (SyntaxError, ValueError):
        return False
    rows = [ROW_OF_FORM[use.form] for use in uses if use.form in ROW_OF_FORM]
    other_versions = [version for version in VERSIONS.values() if not version.follows(behaviour)]
    return any(not any(version.follows(row) for version in other_versions) for row in rows)


def narrow_candidates(
    candidates: list[Version], file: str, uses: Sequence[Use]
) -> tuple[list[Version], str]:
    """The candidates that have every form, and the reason why no newer version remains."""
    reason = "the latest"
    for use in uses:
        row = ROW_OF_FORM[use.form]
        fewer_candidates = [version for version in candidates if version.follows(row)]
        if fewer_candidates and fewer_candidates[-1] is not candidates[-1]:
            reason = f"{use.form} at {file}:{use.line} exists {row.span}"
        candidates = fewer_candidates
        if not candidates:
            break
    return candidates, reason


def refuse_contradiction(file: str, uses: Sequence[Use]) -> None:
    """Raise BadInput for two forms of a file of which no version has both."""
    for older in uses:
        for newer in uses:
            rows = ROW_OF_FORM[older.form], ROW_OF_FORM[newer.form]
            if rows[0].end <= rows[1].first:
                raise BadInput(
                    f"{file} uses {older.form} in line {older.line}, which exists {rows[0].span}, "
                    f"and {newer.form} in line {newer.line}, which exists {rows[1].span}; legal: "
                    "forms of one version",
                    fix=f"instead of {older.form}: {rows[0].instead}; or choose a version: "
                    f"--nki {LATEST.name}",
                    source=rows[0].source,
                )


def versioned_uses(file: str, function: tuple[str, int] | None = None) -> list[Use]:
    """The forms that some version lacks, of a file or of one of its functions (`forms.uses_of`).

    Empty for text that is not Python, and for a file without any form that a version removed: such
    a file is valid under the latest version.

    Args:
        file: path of the file.
        function: name and first line of the function; None for the whole file.
    """
    return list(_versioned_uses(file, function, _stamp(file)))


@lru_cache(maxsize=1024)
def _versioned_uses(file: str, function: tuple[str, int] | None, stamp: float) -> tuple[Use, ...]:
    del stamp
    text = text_of(file)
    if not any(word in text for word in _HINTS):
        return ()
    try:
        return tuple(use for use in uses_of(text, function) if use.form in ROW_OF_FORM)
    except (SyntaxError, ValueError):
        return ()


def _uses_of_code(code: CodeType) -> list[Use]:
    """The removed names that a function without source uses, such as a function from `exec`."""
    names, pending_codes = set(code.co_names), [code]
    while pending_codes:
        inner_codes = [
            const for const in pending_codes.pop().co_consts if isinstance(const, CodeType)
        ]
        names |= {name for part in inner_codes for name in part.co_names}
        pending_codes += inner_codes
    line = code.co_firstlineno
    forms = [
        form for form in REMOVED_FORMS if _NAME.fullmatch(form) and form.split(".")[1] in names
    ]
    return [Use(form, line, ast.Pass()) for form in forms]


def _modules_from(name: str) -> Iterator[ModuleType]:
    """The user's modules from which the module `name` imports, directly or through others."""
    pending_names, module_names = [name], {name}
    while pending_names and len(module_names) < _MOST_FILES:
        module = sys.modules.get(pending_names.pop())
        for value in list(vars(module).values()) if module is not None else ():
            origin = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
            if origin in module_names:
                continue
            module_names.add(origin)
            imported_module = sys.modules.get(origin)
            if isinstance(imported_module, ModuleType) and _may_have_kernels(imported_module):
                pending_names.append(origin)
                yield imported_module


def _module_of(value: object) -> str:
    """The name of the module that defines a function or a class; "" for other values."""
    name = getattr(value, "__module__", None) if callable(value) else None
    return name if isinstance(name, str) else ""


def _may_have_kernels(module: ModuleType) -> bool:
    """True for a Python file outside trnsim in which the word "nki" occurs."""
    file = getattr(module, "__file__", None) or ""
    is_ours = module.__name__.partition(".")[0] in {"trnsim", "nki", "neuronxcc"}
    return file.endswith(".py") and not is_ours and "nki" in text_of(file)


def code_of(function: Any) -> CodeType | None:
    """The code of a function, also behind partials and wrappers; None for other callables."""
    while not hasattr(function, "__code__"):
        wrapped_function = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
        if wrapped_function is None:
            return None
        function = wrapped_function
    code: CodeType = function.__code__
    return code


def file_of(function: Callable[..., Any]) -> str:
    """The file of a function; "" for other callables."""
    code = code_of(function)
    return "" if code is None else code.co_filename


def text_of(file: str) -> str:
    """The text of a file; "" if there is none."""
    return _cached_text(file, _stamp(file))


@lru_cache(maxsize=1024)
def _cached_text(file: str, stamp: float) -> str:
    """The text of a file or of a notebook's cell; "" if there is none."""
    del stamp
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return "".join(linecache.getlines(file))


def _stamp(file: str) -> float:
    """Time of a file's last change, a part of cache keys; 0.0 if there is no file."""
    try:
        return os.stat(file).st_mtime  # noqa: PTH116  a string that may be no path
    except (OSError, ValueError):
        return 0.0

"""The version of each kernel of a file, and what each later version refuses or changes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.behaviours import LATEST, VERSIONS, Behaviour, Effect, Version, language, version_named
from trnsim.errors import BadInput, NotModelled, SourceLine
from trnsim.nki.dialect import MARKER, ROW_OF_FORM, narrow_candidates, refuse_contradiction
from trnsim.nki.forms import Use
from trnsim.nki.migrate.file import Function, SourceFile
from trnsim.nki.migrate.traces import Trace, traces_of

WHOLE_FILE: Final = "(file)"
"""Name in place of a kernel's, for code that no kernel of the file uses."""


@dataclass(frozen=True)
class KernelVersion:
    """The version for which a kernel is written.

    Attributes:
        name: the kernel's name, or `WHOLE_FILE`.
        line: the line of its definition, from 1.
        version: the newest version that has every form which it uses, or the chosen version.
        oldest: the oldest such version.
        reason: the form, option or line of the file that determines it.
        is_chosen: true if an option or a line of the file names it.
    """

    name: str
    line: int
    version: Version
    oldest: Version
    reason: str
    is_chosen: bool


@dataclass(frozen=True)
class Statement:
    """A place of the file that a later version refuses or changes.

    Attributes:
        trace: the place, and its row of the table of behaviours.
        version: the first version that refuses or changes it.
        kernels: names of the kernels that contain the place, or call a function that does.
        last: the last such version.
    """

    trace: Trace
    version: Version
    kernels: tuple[str, ...]
    last: Version

    @property
    def row(self) -> Behaviour:
        """The row of the table of behaviours."""
        return self.trace.row

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self.trace.line

    @property
    def says(self) -> str:
        """The rule that holds from `version` on."""
        row = self.row
        says = row.otherwise if row.until == self.version.name else row.rule
        return f"{row.form} {says.removeprefix('it ')}" if says.startswith("it ") else says

    @property
    def effect(self) -> str:
        """The consequence: "refused", "other values"; "perhaps ..." where the text is silent."""
        effect = self.row.effect.value
        return effect if self.trace.is_certain else f"perhaps {effect}"

    def holds_in(self, version: Version) -> bool:
        """True if `version` refuses or changes the place too."""
        return version.number <= self.last.number


@dataclass(frozen=True)
class Report:
    """The migration of a file.

    Attributes:
        path: the path of the file.
        file: the file.
        target: the version to which it migrates.
        kernels: the versions of its kernels, in the order of their lines.
        statements: its places that a version up to the target refuses or changes.
    """

    path: str
    file: SourceFile
    target: Version
    kernels: Sequence[KernelVersion]
    statements: Sequence[Statement]


def report_of(
    text: str, path: str, target: Version = LATEST, origin: str | Version | None = None
) -> Report:
    """The report of a file.

    Args:
        text: its text.
        path: its path, for errors.
        target: the version to which it migrates.
        origin: the version for which it is written; None for the version of its line
            ``# nki: 0.4``, or without such a line the newest that has all forms of each kernel.

    Raises:
        BadInput: for a file that is not Python, has nothing of NKI, or is newer than the target.
        NotModelled: for a file of NKI 0.1.
    """
    file = _source_file(text, path)
    _check_generation(file, path)
    request = _requested_version(text, path, origin)
    traces = traces_of(file)
    owners = {trace: _owners(file, trace) for trace in traces}
    kernels = [
        _version_of(file, path, kernel, [t for t in traces if kernel in owners[t]], request)
        for kernel in file.kernels
    ] or [_version_of(file, path, None, traces, request)]
    for kernel in kernels:
        _check_direction(kernel, target, path)
    return Report(path, file, target, kernels, statements_of(file, kernels, target))


def statements_of(
    file: SourceFile, kernels: Sequence[KernelVersion], target: Version
) -> list[Statement]:
    """The statements of a file, given the versions of its kernels in the order of their lines."""
    statements = []
    for trace in traces_of(file):
        owners = _owners(file, trace)
        users = [k for k, node in zip(kernels, file.kernels, strict=False) if node in owners]
        names = tuple(kernel.name for kernel in users) or (WHOLE_FILE,)
        oldest_version = min(
            (kernel.version for kernel in users or kernels), key=lambda version: version.number
        )
        statement = _statement(trace, names, oldest_version, target)
        if statement is not None:
            statements.append(statement)
    return [*statements, *_mixture_statements(file, kernels, target)]


def _source_file(text: str, path: str) -> SourceFile:
    """The syntax tree of a file; BadInput if it is not Python."""
    try:
        return SourceFile(text)
    except SyntaxError as error:
        line = SourceLine(path, error.lineno) if error.lineno else None
        raise BadInput(
            f"{path} is not valid Python: {error.msg}", fix="correct the line", line=line
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{path} is not valid Python: {error}", fix="name a file of kernels") from (
            error
        )


def _check_generation(file: SourceFile, path: str) -> None:
    """Refuse files of NKI 0.1, and files without NKI.

    Raises:
        BadInput: if the file imports nothing of NKI.
        NotModelled: if it imports neuronxcc.nki and not nki.
    """
    modules = set(file.reader.names.values())
    if any(name.removeprefix("trnsim.").partition(".")[0] == "nki" for name in modules):
        return
    if any(name.startswith("neuronxcc.nki") or name == "neuronxcc" for name in modules):
        raise NotModelled(
            f"{path} is written for NKI 0.1 (neuronxcc.nki), which is not emulated yet; legal: "
            f"files of NKI {', '.join(VERSIONS)}",
            fix="follow AWS's guide from 0.1 to 0.2 first: nki/migration/index.rst",
            source="nki/migration/index.rst, Migrating from NKI 0.1.0 to NKI 0.2.0",
        )
    raise BadInput(
        f"{path} has no kernel: it imports nothing of NKI",
        fix="name a file with a function that is decorated with @nki.jit",
    )


def _requested_version(
    text: str, path: str, origin: str | Version | None
) -> tuple[Version, str] | None:
    """The version that an option or a line of the file names, and its reason."""
    if isinstance(origin, Version):
        return origin, "chosen"
    if origin is not None:
        return version_named(origin, "--from"), "--from"
    names = dict.fromkeys(MARKER.findall(text))
    if len(names) > 1:
        raise BadInput(
            f"{path} is marked for several versions of NKI: {', '.join(names)}; legal: one",
            fix="keep one line such as `# nki: 0.4`, or say --from VERSION",
        )
    for name in names:
        reason = f"`# nki: {name}`"
        return version_named(name, f"{reason} in {path}"), reason
    return None


def _owners(file: SourceFile, trace: Trace) -> set[Function]:
    """The kernels that contain a place or call a function that contains it."""
    owners = {kernel for kernel in file.kernels if trace.node in file.reached_from(kernel)}
    call = file.parent(trace.node)
    if isinstance(call, ast.keyword):
        call = file.parent(call)
    if trace.row is language.LIST_ARGUMENTS and isinstance(call, ast.Call):
        callee = call.func.value if isinstance(call.func, ast.Subscript) else call.func
        owners |= {
            kernel
            for kernel in file.kernels
            if isinstance(callee, ast.Name) and callee.id == kernel.name
        }
    return owners


def _version_of(
    file: SourceFile,
    path: str,
    kernel: Function | None,
    traces: Sequence[Trace],
    request: tuple[Version, str] | None,
) -> KernelVersion:
    """The version of a kernel; of the whole file if `kernel` is None."""
    roots = file.roots_of(kernel) if kernel is not None else [file.tree]
    uses = [
        Use(form, getattr(node, "lineno", 0), node)
        for root in roots
        for form, node in file.reader.forms(root)
        if form in ROW_OF_FORM
    ]
    uses.sort(key=lambda use: use.line)
    name, line = (WHOLE_FILE, 1) if kernel is None else (kernel.name, kernel.lineno)
    candidates, reason = narrow_candidates(list(VERSIONS.values()), path, uses)
    if not candidates:
        refuse_contradiction(path, uses)
    if request is not None:
        version, why = request
        _check_forms(path, uses, version, why)
        return KernelVersion(name, line, version, version, why, is_chosen=True)
    for trace in traces:
        row = trace.row
        is_sure = trace.is_certain and row.effect is Effect.refused
        fewer_candidates = [v for v in candidates if v.follows(row) == trace.needs_row]
        if is_sure and fewer_candidates and fewer_candidates[-1] is not candidates[-1]:
            candidates, reason = fewer_candidates, f"line {trace.line}: {row.rule} {row.span}"
    reason = reason.replace(f" at {path}:", " in line ")
    return KernelVersion(name, line, candidates[-1], candidates[0], reason, is_chosen=False)


def _check_forms(path: str, uses: Sequence[Use], version: Version, why: str) -> None:
    """Refuse a chosen version that lacks a form of the file."""
    for use in uses:
        row = ROW_OF_FORM[use.form]
        if not version.follows(row):
            raise BadInput(
                f"{why} says {version}, and {path} uses {use.form}, which exists {row.span}",
                fix="say --from with a version that has it, or leave it out",
                source=row.source,
                line=SourceLine(path, use.line),
            )


def _check_direction(kernel: KernelVersion, target: Version, path: str) -> None:
    """Refuse a target that is older than the kernel."""
    if target.number < kernel.oldest.number:
        raise BadInput(
            f"--to {target.name} is older than {path}: {kernel.name} is written for "
            f"{kernel.version} ({kernel.reason}); legal: {kernel.oldest.name} or later",
            fix=f"say --to {LATEST.name}, or leave it out",
            line=SourceLine(path, kernel.line),
        )


def _statement(
    trace: Trace, kernels: tuple[str, ...], origin: Version, target: Version
) -> Statement | None:
    """The statement of a place, for a migration from `origin` to `target`; None if unaffected."""
    row = trace.row
    versions = list(VERSIONS.values())
    is_removed = (
        trace.needs_row
        and row.until is not None
        and row.first <= origin.number < row.end <= target.number
    )
    is_introduced = not trace.needs_row and origin.number < row.first <= target.number
    if is_removed:
        return Statement(trace, VERSIONS[row.until or ""], kernels, LATEST)
    if is_introduced:
        last_version = [version for version in versions if version.follows(row)][-1]
        return Statement(trace, VERSIONS[row.since], kernels, last_version)
    return None


def _mixture_statements(
    file: SourceFile, kernels: Sequence[KernelVersion], target: Version
) -> list[Statement]:
    """A statement for kernels of NKI 0.2 beside kernels of later versions."""
    row = language.UNMIXED
    old_kernels = [kernel for kernel in kernels if not kernel.version.follows(row)]
    if not old_kernels or len(old_kernels) == len(kernels) or not target.follows(row):
        return []
    node = file.kernels[kernels.index(old_kernels[0])]
    trace = Trace(row, node, is_certain=False)  # a file is not yet a model
    return [Statement(trace, VERSIONS[row.since], (old_kernels[0].name,), LATEST)]

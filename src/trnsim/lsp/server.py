"""A language server over stdio: a file of kernels is checked when it is opened and saved.

A check is `trnsim check` in a process of its own, within bounds. Its findings are diagnostics, its
times by line are inlay hints. A hover over an instruction has the answer of `trnsim explain`.

Source: microsoft.github.io/language-server-protocol, specification 3.17.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from trnsim import api
from trnsim.api.bounds import BoundExceeded, Bounds, end
from trnsim.errors import EmulatorError
from trnsim.lsp.hover import hover_text, instruction_at
from trnsim.lsp.marks import (
    LineHint,
    LineMark,
    hints,
    imports_nki,
    marks,
    refusal_marks,
    syntax_mark,
)
from trnsim.version import VERSION

_MOST_CHECKS: Final = 2
"""Checks of different files that run at once."""
_SEVERITIES: Final = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True)
class FileCheck:
    """Marks and times of a file, from one check.

    Attributes:
        hints: times beside its lines.
    """

    marks: Sequence[LineMark] = ()
    hints: Sequence[LineHint] = ()
    lines: Sequence[str] = ()


@dataclass
class OpenFile:
    """An open file.

    Attributes:
        is_checking: True while a check of it runs.
        is_stale: True if it was saved since the check began.
        bounds: the bounds of the running check, by which `end` finds its process; None without.
    """

    is_checking: bool = False
    is_stale: bool = False
    bounds: Bounds | None = None
    last: FileCheck = field(default_factory=FileCheck)


class KernelServer(LanguageServer):
    """The server of an editor's workspace.

    Attributes:
        bounds: bounds of a check; the folder is the workspace's root.
        has_root: True if the workspace has a root; without a root no file is run.
        runs_on_save: True if files are run when they are saved (the client's option `runOnSave`).
        chips: chips to check on (the client's option `on`).
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__("trnsim", VERSION)
        self.bounds = bounds
        self.has_root = False
        self.runs_on_save = True
        self.chips: tuple[str, ...] = ()
        self._open_files: dict[str, OpenFile] = {}
        self._hover_texts: dict[str, str | None] = {}
        self._checks = asyncio.Semaphore(_MOST_CHECKS)

    def configure(self, params: types.InitializeParams) -> None:
        """Take the root and the options of a client; an option of a wrong type is ignored."""
        folders = params.workspace_folders or []
        uri = folders[0].uri if folders else params.root_uri
        root = (to_fs_path(uri) if uri else None) or params.root_path
        if root and Path(root).is_dir():
            self.bounds, self.has_root = replace(self.bounds, folder=Path(root)), True
        content = params.initialization_options
        options: Mapping[str, Any] = content if isinstance(content, Mapping) else {}
        if isinstance(options.get("runOnSave"), bool):
            self.runs_on_save = options["runOnSave"]
        chips = options.get("on")
        if isinstance(chips, Sequence) and all(isinstance(chip, str) for chip in chips):
            self.chips = (chips,) if isinstance(chips, str) else tuple(chips)

    async def check(self, uri: str) -> None:
        """Check a file and show the answer; a later check of the file ends an earlier check."""
        if urlsplit(uri).scheme != "file":
            return
        file = self._open_files.setdefault(uri, OpenFile())
        file.is_stale = True
        if file.is_checking:
            _end(file)
            return
        file.is_checking = True
        last = file.last
        try:
            while file.is_stale:
                file.is_stale = False
                last = await self._check_content(file, Path(to_fs_path(uri) or ""))
        finally:
            file.is_checking = False
        if self._open_files.get(uri) is file:
            file.last = last
            self._show(uri, last)

    def close(self, uri: str) -> None:
        """Forget a file, and clear its diagnostics and hints."""
        file = self._open_files.pop(uri, None)
        if file is not None:
            file.is_stale = False
            _end(file)
            self._show(uri, FileCheck())

    def hints_of(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        """The hints in a range, for lines that have not changed since the check."""
        uri = params.text_document.uri
        file = self._open_files.get(uri)
        if file is None:
            return []
        document, last = self.workspace.get_text_document(uri), file.last
        lines = [line.rstrip("\r\n") for line in document.lines]
        codec = document.position_codec
        first_line, end = params.range.start.line, params.range.end.line
        return [
            types.InlayHint(
                types.Position(at, codec.client_num_units(lines[at])),
                hint.label,
                tooltip=hint.details,
                padding_left=True,
            )
            for hint in last.hints
            if first_line <= (at := hint.line - 1) <= end
            and at < min(len(lines), len(last.lines))
            and lines[at] == last.lines[at]
        ]

    async def hover_of(self, params: types.HoverParams) -> types.Hover | None:
        """The documentation of the instruction at a position; None without an instruction."""
        document = self.workspace.get_text_document(params.text_document.uri)
        if params.position.line >= len(document.lines):
            return None
        position = document.position_codec.position_from_client_units(
            document.lines, params.position
        )
        line_text = document.lines[params.position.line]
        name = instruction_at(document.source, line_text, position.character)
        if name is None:
            return None
        if name not in self._hover_texts:
            try:
                answer = await asyncio.to_thread(api.explain, name, bounds=self.bounds)
            except BoundExceeded:  # of a busy computer, so the next hover may have an answer
                return None
            except EmulatorError:  # nki.isa has names that are no instructions
                self._hover_texts[name] = None
            else:
                self._hover_texts[name] = hover_text(answer.values)
        text = self._hover_texts[name]
        if text is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    async def _check_content(self, file: OpenFile, path: Path) -> FileCheck:
        try:
            content = await asyncio.to_thread(path.read_bytes)
        except OSError:  # gone since
            return FileCheck()
        syntax = syntax_mark(content)
        if syntax is not None:
            return FileCheck([syntax])
        if not (self.runs_on_save and self.has_root and imports_nki(content)):
            return FileCheck()
        async with self._checks:
            if file.is_stale:
                return FileCheck()
            bounds = file.bounds = replace(self.bounds)
            try:
                name = Path(bounds.path(path)).as_posix()
                answer = await asyncio.to_thread(api.check, name, on=self.chips, bounds=bounds)
            except EmulatorError as error:
                return FileCheck(refusal_marks(error.reason, error.fix, path.name, content))
            except asyncio.CancelledError:  # the server ends, and with it what it started
                end(bounds)
                raise
            finally:
                file.bounds = None
        lines = content.decode("utf-8-sig", "replace").splitlines()
        return FileCheck(marks(answer.values, name, content), hints(answer.values, name), lines)

    def _show(self, uri: str, last: FileCheck) -> None:
        """Publish the diagnostics of a file, and ask the client to ask for its hints."""
        document = self.workspace.get_text_document(uri)
        # Without marks nothing is read: a file that was closed may be gone, or be no text.
        lines = [line.rstrip("\r\n") for line in document.lines] if last.marks else []
        codec = document.position_codec
        diagnostics = []
        for mark in last.marks:
            at = min(max(mark.line - 1, 0), max(len(lines) - 1, 0))
            text = lines[at] if lines else ""
            indent = text[: len(text) - len(text.lstrip())]
            place = types.Range(
                types.Position(at, codec.client_num_units(indent)),
                types.Position(at, codec.client_num_units(text)),
            )
            severity = _SEVERITIES[mark.severity]
            diagnostics.append(
                types.Diagnostic(place, mark.text, severity, code=mark.kind, source="trnsim")
            )
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))
        workspace = self.client_capabilities.workspace
        hint = workspace.inlay_hint if workspace else None
        if hint is not None and hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)


def _end(file: OpenFile) -> None:
    """End the check of a file, if one runs."""
    if file.bounds is not None:
        end(file.bounds)


def server(bounds: Bounds) -> KernelServer:
    """A server with the functions that answer its editor's messages."""
    kernel_server = KernelServer(bounds)

    @kernel_server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        kernel_server.configure(params)

    @kernel_server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        await kernel_server.check(params.text_document.uri)

    @kernel_server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        await kernel_server.check(params.text_document.uri)

    @kernel_server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        kernel_server.close(params.text_document.uri)

    @kernel_server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def inlay_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        return kernel_server.hints_of(params)

    @kernel_server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        return await kernel_server.hover_of(params)

    return kernel_server


def serve(bounds: Bounds) -> None:
    """Serve an editor over stdio until it leaves; checks that run end with the server."""

    def leave(number: int, _frame: object) -> None:
        end()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    server(bounds).start_io()

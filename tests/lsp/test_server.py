"""The server: its own parts in this process, and sessions of pygls' client over stdio."""

import asyncio
import queue
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

from trnsim import api
from trnsim.api.bounds import Answer, BoundExceeded, Bounds
from trnsim.errors import BadInput
from trnsim.lsp import server as module
from trnsim.lsp.server import KernelServer, server

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def scaled_inputs():
    return (np.ones((128, 512), np.float32),)


def scaled_reference(x):
    return 2 * x
"""
REFUSED = KERNEL.replace("tile = nl.ndarray(x.shape", "tile = nl.ndarray((256, 512)")
NO_ANSWER = {"chips": ["trn2"], "kernels": [], "unchecked": []}


class Kernels(KernelServer):
    """A server that keeps what it shows."""

    def __init__(self, folder, options=None):
        super().__init__(Bounds(folder=folder))
        self.shown = []
        self.protocol._workspace = Workspace(folder.as_uri())
        self.protocol.client_capabilities = types.ClientCapabilities()
        self.configure(
            types.InitializeParams(
                types.ClientCapabilities(),
                root_uri=folder.as_uri(),
                initialization_options=options,
            )
        )

    def text_document_publish_diagnostics(self, params):
        self.shown.append(params.diagnostics)


@pytest.fixture
def asked(monkeypatch):
    """The files that were asked to be checked."""
    names = []

    def check(name, *, on, bounds):
        names.append((name, on, bounds.folder))
        return Answer(NO_ANSWER, 0, "")

    monkeypatch.setattr(api, "check", check)
    return names


def shown_of(kernels, path):
    asyncio.run(kernels.check(path.as_uri()))
    return kernels.shown[-1]


def write(folder, text, name="k.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_of_kernels_is_checked_below_the_root_on_the_chips(tmp_path, asked):
    (tmp_path / "sub").mkdir()
    kernels = Kernels(tmp_path, {"on": ["trn2", "trn3"]})
    assert shown_of(kernels, write(tmp_path, KERNEL, "sub/k.py")) == []
    assert asked == [("sub/k.py", ("trn2", "trn3"), tmp_path)]


@pytest.mark.parametrize(
    ("text", "options"),
    [("import numpy", None), (KERNEL, {"runOnSave": False}), (KERNEL + "def f(:\n", None)],
)
def test_what_is_no_kernel_turned_off_or_half_typed_is_not_run(tmp_path, asked, text, options):
    diagnostics = shown_of(Kernels(tmp_path, options), write(tmp_path, text))
    assert [each.code for each in diagnostics] == (["syntax"] if "(:" in text else [])
    assert not asked


@pytest.mark.parametrize("options", [[], "x", {"runOnSave": "no", "on": 3}, {"on": [1]}])
def test_options_of_another_type_change_nothing(tmp_path, options):
    kernels = Kernels(tmp_path, options)
    assert kernels.runs_on_save
    assert kernels.chips == ()


def test_a_file_outside_of_the_root_is_not_run(tmp_path, asked):
    (tmp_path / "root").mkdir()
    (diagnostic,) = shown_of(Kernels(tmp_path / "root"), write(tmp_path, KERNEL))
    assert "outside of" in diagnostic.message
    assert not asked


def test_without_a_root_nothing_is_run(tmp_path, asked):
    kernels = Kernels(tmp_path)
    kernels.has_root = False
    assert shown_of(kernels, write(tmp_path, KERNEL)) == []
    assert not asked


def test_a_file_that_is_gone_or_no_file_shows_nothing(tmp_path):
    kernels = Kernels(tmp_path)
    assert shown_of(kernels, tmp_path / "gone.py") == []
    asyncio.run(kernels.check("untitled:1"))
    assert len(kernels.shown) == 1


def test_a_time_out_stands_at_line_1(tmp_path, monkeypatch):
    def check(*_, **__):
        raise BadInput("trnsim check took longer than 1 s and was ended", fix="smaller")

    monkeypatch.setattr(api, "check", check)
    (diagnostic,) = shown_of(Kernels(tmp_path), write(tmp_path, KERNEL))
    assert diagnostic.range.start.line == 0
    assert "took longer" in diagnostic.message


def test_of_several_saves_the_last_is_shown_and_one_check_runs_at_a_time(tmp_path, monkeypatch):
    began, goes_on, running, texts = threading.Event(), threading.Event(), [], []

    def check(name, **_):
        running.append(name)
        assert len(running) == 1
        texts.append((tmp_path / name).read_text())
        began.set()
        assert goes_on.wait(10)
        running.pop()
        return Answer({**NO_ANSWER, "unchecked": [f"k.py: {len(texts)}"]}, 0, "")

    async def session():
        first = asyncio.create_task(kernels.check(path.as_uri()))
        await asyncio.to_thread(began.wait, 10)
        for number in (2, 3):
            path.write_text(f"{KERNEL}# {number}\n")
            await kernels.check(path.as_uri())
        goes_on.set()
        await first

    monkeypatch.setattr(api, "check", check)
    kernels, path = Kernels(tmp_path), write(tmp_path, KERNEL)
    asyncio.run(session())
    assert texts == [KERNEL, f"{KERNEL}# 3\n"]
    ((diagnostic,),) = kernels.shown
    assert "2_inputs" in diagnostic.message


def test_a_server_that_ends_ends_its_checks(tmp_path, monkeypatch):
    ended = threading.Event()

    async def session():
        task = asyncio.create_task(kernels.check(path.as_uri()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(api, "check", lambda *_, **__: ended.wait(10))
    monkeypatch.setattr(module, "end", lambda _: ended.set())
    kernels, path = Kernels(tmp_path), write(tmp_path, KERNEL)
    asyncio.run(session())
    assert ended.is_set()


def test_a_save_ends_the_check_that_runs_and_so_does_closing(tmp_path, monkeypatch):
    began, ended, starts = [], [], queue.Queue()

    def check(*_, bounds, **__):
        began.append(bounds)
        if len(began) != 2:
            starts.put(None)
        while not any(own is bounds for own in ended) and len(began) != 2:
            time.sleep(0.001)
        return Answer(NO_ANSWER, 0, "")

    async def session():
        for act in (kernels.check, close):
            task = asyncio.create_task(kernels.check(path.as_uri()))
            await asyncio.to_thread(starts.get, timeout=10)
            await act(path.as_uri())
            await task

    async def close(uri):
        kernels.close(uri)

    monkeypatch.setattr(api, "check", check)
    monkeypatch.setattr(module, "end", ended.append)
    kernels, path = Kernels(tmp_path), write(tmp_path, KERNEL)
    asyncio.run(session())
    assert [id(own) for own in ended] == [id(began[0]), id(began[2])]
    assert len({id(own) for own in began}) == 3
    assert kernels.shown == [[], []]


def test_a_closed_file_that_is_no_text_shows_nothing(tmp_path):
    path = tmp_path / "k.py"
    path.write_bytes(b"\xff\n")
    kernels = Kernels(tmp_path)
    kernels._open_files[path.as_uri()] = module.OpenFile()
    kernels.close(path.as_uri())
    assert kernels.shown == [[]]


def test_a_closed_file_shows_nothing_more(tmp_path):
    kernels, path = Kernels(tmp_path), write(tmp_path, KERNEL + "def f(:\n")
    assert shown_of(kernels, path)
    kernels.close(path.as_uri())
    assert kernels.shown[-1] == []
    kernels.close(path.as_uri())
    assert len(kernels.shown) == 2


def test_columns_are_those_of_the_protocol_and_lines_those_of_the_file(tmp_path, monkeypatch):
    row = {"kind": "illegal", "failure": True, "text": "x", "fix": "", "source": ""}
    findings = [{**row, "file": "k.py", "line": line} for line in (2, 99)]
    kernel = {"kernel": "a", "chip": "trn2", "findings": findings, "lines": []}
    values = {**NO_ANSWER, "kernels": [kernel]}
    monkeypatch.setattr(api, "check", lambda *_, **__: Answer(values, 1, ""))
    path = tmp_path / "k.py"
    path.write_bytes("import nki\n  # \U0001f600\n".encode())
    diagnostics = shown_of(Kernels(tmp_path), path)
    places = [(each.range.start.character, each.range.end.character) for each in diagnostics]
    assert places == [(2, 6), (2, 6)]


def test_lines_that_changed_since_the_check_have_no_hint(tmp_path, monkeypatch):
    row = {"file": "k.py", "instructions": 1, "critical_s": 1e-6, "waiting_s": 0, "busy_s": 0}
    lines = [{**row, "line": line} for line in (1, 2, 3)]
    kernel = {"kernel": "a", "chip": "trn2", "findings": [], "lines": lines}
    values = {**NO_ANSWER, "kernels": [kernel]}
    monkeypatch.setattr(api, "check", lambda *_, **__: Answer(values, 0, ""))
    kernels, path = Kernels(tmp_path), write(tmp_path, "import nki\nx = 1\ny = 2\n")
    shown_of(kernels, path)

    def hinted(first, end):
        place = types.Range(types.Position(first, 0), types.Position(end, 0))
        document = types.TextDocumentIdentifier(path.as_uri())
        hints = kernels.hints_of(types.InlayHintParams(document, place))
        return [(hint.position.line, hint.position.character, hint.label) for hint in hints]

    assert hinted(0, 9) == [(0, 10, "1 us"), (1, 5, "1 us"), (2, 5, "1 us")]
    assert hinted(1, 1) == [(1, 5, "1 us")]
    path.write_text("import nki\nx = 3\n")
    assert hinted(0, 9) == [(0, 10, "1 us")]


def test_a_hover_that_took_too_long_is_asked_again(tmp_path, monkeypatch):
    path = write(tmp_path, KERNEL)
    document = types.TextDocumentIdentifier(path.as_uri())
    hover = types.HoverParams(document, types.Position(11, 12))
    kernel_server, names = Kernels(tmp_path), []

    def explain(name, *, bounds):
        names.append(name)
        assert bounds is kernel_server.bounds
        if len(names) == 1:
            raise BoundExceeded("it took longer than 60 s")
        raise BadInput("no instruction")

    monkeypatch.setattr(api, "explain", explain)
    for asked_times in (1, 2, 2):
        assert asyncio.run(kernel_server.hover_of(hover)) is None
        assert names == ["tensor_scalar"] * asked_times


def test_every_capability_is_announced(tmp_path):
    features = server(Bounds(folder=tmp_path)).protocol.fm.features
    assert {"textDocument/inlayHint", "textDocument/hover", "textDocument/didSave"} <= set(features)


class Session:
    """A session of an editor with the command, over stdio."""

    def __init__(self, folder, **options):
        self.folder, self.options, self.has_left = folder, options, False
        self.client = LanguageClient("editor", "1")
        self.shown = asyncio.Queue()
        publish = types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS
        self.client.feature(publish)(lambda params: self.shown.put_nowait(params.diagnostics))

    async def __aenter__(self):
        await self.client.start_io(
            sys.executable, "-m", "trnsim", "lsp", "--time-limit", self.options.pop("limit", "60s")
        )
        await self.client.initialize_async(
            types.InitializeParams(types.ClientCapabilities(), root_uri=self.folder.as_uri())
        )
        self.client.initialized(types.InitializedParams())
        return self

    async def __aexit__(self, *_):
        if not self.has_left:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            await asyncio.wait_for(self.client._server.wait(), 20)
        await self.client.stop()

    async def opened(self, path):
        item = types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text())
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await asyncio.wait_for(self.shown.get(), 120)

    async def saved(self, path, text, version):
        path.write_text(text)
        uri = path.as_uri()
        changed = types.VersionedTextDocumentIdentifier(version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(changed, [change]))
        self.client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
        )
        return await asyncio.wait_for(self.shown.get(), 120)


@pytest.mark.slow
def test_a_session_of_a_kernel_that_is_refused_half_typed_and_right(tmp_path):
    path = write(tmp_path, REFUSED)
    document = types.TextDocumentIdentifier(path.as_uri())
    whole = types.Range(types.Position(0, 0), types.Position(99, 0))

    async def session():
        async with Session(tmp_path) as editor:
            refused = await editor.opened(path)
            half = await editor.saved(path, f"{KERNEL}def f(:\n", 2)
            right = await editor.saved(path, KERNEL, 3)
            ask = editor.client
            hints = await ask.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
            hover = await ask.text_document_hover_async(
                types.HoverParams(document, types.Position(11, 12))
            )
            beside = await ask.text_document_hover_async(
                types.HoverParams(document, types.Position(0, 0))
            )
            return refused, half, right, hints, hover, beside

    refused, half, right, hints, hover, beside = asyncio.run(session())
    (squiggle,) = refused
    assert squiggle.range.start == types.Position(9, 4)
    assert squiggle.severity is types.DiagnosticSeverity.Error
    for words in ("256 partitions", "fix: ", "source: "):
        assert words in squiggle.message
    assert [(each.code, each.range.start.line) for each in half] == [("syntax", KERNEL.count("\n"))]
    assert not right
    assert [hint.position.line for hint in hints] == [10, 11, 12]
    told = api.check("k.py", bounds=Bounds(folder=tmp_path)).values["kernels"][0]["lines"]
    for hint in hints:
        (row,) = [row for row in told if row["line"] == hint.position.line + 1]
        assert float(hint.label.split()[0]) == pytest.approx(
            row["critical_s"] * (1e9 if " ns," in hint.label[:8] else 1e6), rel=0.01
        )
    assert "nisa.tensor_scalar(" in hover.contents.value
    assert beside is None


@pytest.mark.slow
def test_a_kernel_that_loops_for_ever_is_ended_and_the_server_lives(tmp_path):
    path = write(tmp_path, "import nki\nwhile True:\n    pass\n")

    async def session():
        async with Session(tmp_path, limit="3s") as editor:
            return await editor.opened(path), await editor.saved(path, "import nki\n(", 2)

    (ended,), (half,) = asyncio.run(session())
    assert "took longer than 3 s and was ended" in ended.message
    assert ended.range.start.line == 0
    assert half.code == "syntax"


def checks_in(folder):
    """The processes of checks that run in a folder."""
    entries = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            is_check = b"trnsim.api.child" in entry.read_bytes()
            if is_check and (entry.parent / "cwd").resolve() == folder:
                entries.append(entry)
    return entries


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are read from /proc")
@pytest.mark.parametrize("way", ["exit", "end of input", "terminate"])
def test_an_editor_that_leaves_ends_what_runs(tmp_path, way):
    mark = tmp_path / "began"
    loop = f"import nki, pathlib\npathlib.Path({str(mark)!r}).touch()\nwhile True: pass\n"
    path = write(tmp_path, loop, "forever.py")

    async def session():
        async with Session(tmp_path) as editor:
            item = types.TextDocumentItem(path.as_uri(), "python", 1, loop)
            editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            for _ in range(600):
                if mark.exists():
                    break
                await asyncio.sleep(0.1)
            assert checks_in(tmp_path)
            process = editor.client._server
            if way == "end of input":
                process.stdin.close()
            elif way == "terminate":
                process.terminate()
            if way != "exit":
                await asyncio.wait_for(process.wait(), 20)
                editor.has_left = True

    asyncio.run(session())
    for _ in range(100):  # a killed process ends when it is next scheduled
        if not checks_in(tmp_path):
            break
        time.sleep(0.1)
    assert not checks_in(tmp_path)

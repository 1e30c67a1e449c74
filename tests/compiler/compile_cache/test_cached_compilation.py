import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trnsim import files
from trnsim.compiler.compile_cache import (
    CacheEntry,
    CacheKey,
    CacheSettings,
    EntryState,
    compile_cached,
    extract_graph,
)
from trnsim.compiler.compile_cache.cached_compilation import CachedFailure, log_line
from trnsim.compiler.ncc.errors import NCC_ERRORS
from trnsim.compiler.ncc.refusals import CompilerRefusal, Refusal, require_accepted
from trnsim.compiler.stand_in import StandIn
from trnsim.errors import BadInput, EmulatorError, NotModelled

PROGRAM = StandIn("trn2", 2, (), "v", "hlo", b"graph", {"time": 1}).serialized()
FLAGS = ["--target=trn2", "-O1"]
FINAL_CODE = next(code for code, row in NCC_ERRORS.items() if row.is_final and "EOOM" not in code)


class Log(list):
    def __call__(self, component, text):
        self.append((component, text))


class Maker:
    def __init__(self, error=None):
        self.calls, self.error = 0, error

    def __call__(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return PROGRAM


@pytest.fixture
def settings(tmp_path):
    return CacheSettings(tmp_path / "cache")


def entry_in(settings):
    return CacheEntry(settings.version_folder / CacheKey.of(b"graph", FLAGS).folder_name)


def test_a_program_is_compiled_once(settings):
    make, log = Maker(), Log()
    first = compile_cached(b"graph", FLAGS, make, settings, tell=log)
    second = compile_cached(b"graph", FLAGS, make, settings, tell=log)
    assert (first.is_hit, second.is_hit, make.calls) == (False, True, 1)
    assert first.content == second.content == PROGRAM
    assert log == [
        (
            "NEURON_CC_WRAPPER",
            f"Using a cached neff at {second.path}. Exiting with a successfully compiled graph.",
        )
    ]
    assert compile_cached(b"graph", ["-O2"], make, settings, tell=log).is_hit is False
    assert not list(settings.folder.rglob("*.lock"))


def test_a_failure_is_remembered_until_it_is_to_be_tried_again(settings):
    make, log = Maker(NotModelled("no such operation", fix="leave it out")), Log()
    with pytest.raises(NotModelled):
        compile_cached(b"graph", FLAGS, make, settings, tell=log)
    with pytest.raises(
        CachedFailure,
        match=r"(?s)^Got a cached failed neff at .*model\.neff\. Will"
        r" skip compilation, please set --retry_failed_compilation for "
        r"recompilation\.\nno such operation\n  fix: leave it out",
    ):
        compile_cached(b"graph", FLAGS, make, settings, tell=log)
    assert make.calls == 1
    again = CacheSettings(settings.folder, retries_failed=True)
    assert compile_cached(b"graph", FLAGS, Maker(), again, tell=log).content == PROGRAM
    assert compile_cached(b"graph", FLAGS, make, settings, tell=log).is_hit


def test_a_refusal_of_the_strict_policy_is_not_remembered(settings):
    for code, is_remembered in (("NCC_EVRF035", False), (FINAL_CODE, True)):
        with pytest.raises(CompilerRefusal) as caught:
            require_accepted([Refusal(code, "an operator")], is_strict=True)
        graph, make = code.encode(), Maker(caught.value)
        for _ in range(2):
            with pytest.raises(EmulatorError):
                compile_cached(graph, FLAGS, make, settings, tell=Log())
        assert make.calls == (1 if is_remembered else 2)


def test_what_stops_a_compilation_from_outside_is_not_remembered(settings, tmp_path):
    def written():
        files.write(tmp_path / "absent" / "file", "")

    def unreadable():
        files.read_bytes(tmp_path / "absent")

    def nested():
        try:
            files.read_bytes(tmp_path / "absent")
        except BadInput as error:
            raise NotModelled("a graph whose file cannot be read") from error

    def interrupted():
        raise KeyboardInterrupt

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    def out_of_memory():
        raise MemoryError

    for make in (written, unreadable, nested, interrupted, full, out_of_memory):
        with pytest.raises((EmulatorError, KeyboardInterrupt, OSError, MemoryError)):
            compile_cached(b"graph", FLAGS, make, settings, tell=Log())
        assert entry_in(settings).state is EntryState.GRAPH, make
        assert not entry_in(settings).is_locked
    assert compile_cached(b"graph", FLAGS, Maker(), settings, tell=Log()).content == PROGRAM


@pytest.mark.parametrize(
    ("names", "state"),
    [
        ({"cause": MemoryError()}, EntryState.GRAPH),
        ({"context": OSError(errno.ENOSPC, "No space left on device")}, EntryState.GRAPH),
        ({"context": OSError(errno.ENOENT, "none"), "suppress_context": True}, EntryState.FAILED),
        ({"cause": ValueError(), "context": OSError(errno.ENOENT, "none")}, EntryState.FAILED),
    ],
    ids=["raised from", "raised while handling", "raised from None", "raised from another"],
)
def test_a_refusal_is_remembered_if_nothing_from_outside_led_to_it(settings, names, state):
    error = NotModelled("a graph of no operators")
    for name, value in names.items():
        setattr(error, f"__{name}__", value)

    def make():
        raise error

    with pytest.raises(NotModelled):
        compile_cached(b"graph", FLAGS, make, settings, tell=Log())
    assert entry_in(settings).state is state


@pytest.mark.parametrize("content", [b"", PROGRAM[:-1], PROGRAM[:-1] + b"X", b"\x80\x04."])
def test_a_damaged_program_is_compiled_again(settings, content):
    compile_cached(b"graph", FLAGS, Maker(), settings, tell=Log())
    entry_in(settings).program_file.write_bytes(content)
    log, make = Log(), Maker()
    again = compile_cached(b"graph", FLAGS, make, settings, tell=log)
    assert (again.is_hit, make.calls, again.content) == (False, 1, PROGRAM)
    assert "is damaged and is compiled again" in log[0][1]


def test_two_that_want_one_graph_compile_it_once(settings):
    make, results = Maker(), []
    may_end = threading.Event()

    def slow():
        may_end.wait(10)
        return make()

    def run():
        results.append(compile_cached(b"graph", FLAGS, slow, settings, tell=Log()))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert make.calls == 1
    assert sorted(result.is_hit for result in results) == [False, True, True]


def test_without_a_cache_nothing_is_kept(tmp_path):
    result = compile_cached(b"graph", FLAGS, Maker(), CacheSettings(None), tell=Log())
    assert (result.content, result.path) == (PROGRAM, None)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told_and_the_graph_compiles(tmp_path):
    (tmp_path / "file").write_text("")
    log = Log()
    settings = CacheSettings(tmp_path / "file" / "cache")
    assert compile_cached(b"graph", FLAGS, Maker(), settings, tell=log).content == PROGRAM
    assert re.match("the cache cannot be written, and keeps nothing: cannot write", log[0][1])


def test_a_full_disk_leaves_no_half_program(settings, monkeypatch):
    def full(path, content):
        del content
        raise BadInput(f"cannot write {path}: {os.strerror(errno.ENOSPC)}")

    entry = entry_in(settings)
    entry.store_graph(b"graph", FLAGS)
    monkeypatch.setattr(CacheEntry, "store_program", full)
    log = Log()
    result = compile_cached(b"graph", FLAGS, Maker(), settings, tell=log)
    assert (result.content, result.path) == (PROGRAM, None)
    assert "the program is not kept: cannot write" in log[-1][1]
    assert entry.state is EntryState.GRAPH


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is a device of Linux")
def test_the_write_of_a_program_on_a_full_disk_is_named(tmp_path):
    (tmp_path / "model.neff").symlink_to("/dev/full")
    with pytest.raises(BadInput, match="No space left"):
        files.write(tmp_path / "model.neff", b"x" * 1000)


def test_graphs_are_extracted_and_not_compiled(settings):
    log = Log()
    path = extract_graph(b"graph", FLAGS, settings, tell=log)
    assert path.read_bytes() == b"graph"
    assert entry_in(settings).state is EntryState.GRAPH
    ((component, text),) = log
    assert component == "NEURON_CC_WRAPPER"
    assert text.startswith(f"Extracting graphs ({path}) for ahead-of-time parallel compilation.")
    assert text.endswith(" No compilation was done.")
    with pytest.raises(BadInput, match="to a cache that --no_cache turns off"):
        extract_graph(b"graph", FLAGS, CacheSettings(None), tell=log)


def test_a_line_of_a_log_is_awss():
    pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000\d{3}:  \d+  INFO \|\|NEURON_CACHE\|\|: text"
    assert re.fullmatch(pattern, log_line("NEURON_CACHE", "text"))


KILLED = """
import os, signal, sys
from pathlib import Path
from trnsim.compiler.compile_cache import CacheSettings, compile_cached
def make():
    print("compiling", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
compile_cached(b"graph", ["--target=trn2", "-O1"], make, CacheSettings(Path(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_killed_while_it_compiles_leaves_a_cache_that_works(settings):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(settings.folder)], capture_output=True, check=False
    )
    assert done.stdout == b"compiling\n"
    assert done.returncode == -9
    assert entry_in(settings).state is EntryState.GRAPH
    assert entry_in(settings).lock_file.is_file()
    assert not entry_in(settings).is_locked
    assert compile_cached(b"graph", FLAGS, Maker(), settings, tell=Log()).content == PROGRAM


SLOW = """
import sys, time
from pathlib import Path
from trnsim.compiler.compile_cache import CacheSettings, compile_cached
from trnsim.compiler.stand_in import StandIn
def make():
    print("compiling", flush=True)
    time.sleep(1)
    return StandIn("trn2", 2, (), "v", "hlo", b"graph", {}).serialized()
compile_cached(b"graph", ["--target=trn2", "-O1"], make, CacheSettings(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_two_processes_compile_a_graph_once(settings):
    command = [sys.executable, "-c", SLOW, str(settings.folder)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(out for out, _ in outputs) == ["", "compiling\n"]
    assert "".join(told for _, told in outputs).count("Using a cached neff at") == 1
    assert entry_in(settings).state is EntryState.DONE

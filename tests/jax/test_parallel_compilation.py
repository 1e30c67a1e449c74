import os
import signal
import sys

import pytest

from trnsim.compiler.compile_cache import (
    CacheEntry,
    CacheSettings,
    EntryState,
    entries,
    extract_graph,
)
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput
from trnsim.graph import Graph
from trnsim.jax.parallel_compilation import compile_all, compile_entry_of, report

FLAGS = ["--target=trn1", "--logical-nc-config=1"]


def graph_of(columns):
    graph = Graph()
    graph.outputs = [graph.elementwise("tanh", graph.input((128, columns), "float32"))]
    return graph_bytes(Subject("m", GraphFile(graph, names={0: "x"})))


def quiet(*_):
    pass


def killing_entry(folder, **settings):
    """As `compile_entry_of`, in a process that one of the graphs ends."""
    if "MODULE_1+" in folder:
        os.kill(os.getpid(), signal.SIGKILL)
    return compile_entry_of(folder, **settings)


def test_an_outcome_has_the_figures_of_the_report(tmp_path):
    settings, log = CacheSettings(tmp_path), []
    extract_graph(graph_of(32), FLAGS, settings, tell=quiet)
    (outcome,) = compile_all(settings, log.append, processes=2, retries=0)
    assert outcome.is_compiled
    assert outcome.figures["target"] == "trn1"
    assert report([outcome], with_times=False)["compilation_summary"] == {"true": 1}
    assert [line.rpartition("||: ")[2].split(" ")[0] for line in log] == [
        *("Compile", "Current", "master", "Current")
    ]


def test_a_program_that_the_cache_cannot_keep_is_compiled_all_the_same(tmp_path, monkeypatch):
    def full(*_):
        raise BadInput("cannot write model.neff: no space left")

    extract_graph(graph_of(32), FLAGS, CacheSettings(tmp_path), tell=quiet)
    (entry,) = entries(CacheSettings(tmp_path).version_folder)
    monkeypatch.setattr(CacheEntry, "store_program", full)
    outcome = compile_entry_of(str(entry.folder), 0, retries_failed=False)
    assert (outcome.is_compiled, outcome.figures["target"]) == (True, "trn1")


def test_a_graph_without_a_target_is_named(tmp_path):
    settings = CacheSettings(tmp_path)
    extract_graph(graph_of(32), ["-O1"], settings, tell=quiet)
    (outcome,) = compile_all(settings, quiet, processes=1, retries=0)
    assert "its flags name no --target" in outcome.reason


def test_a_cache_that_is_off_is_named():
    with pytest.raises(BadInput, match="the cache is turned off by --no_cache"):
        compile_all(CacheSettings(None), quiet, processes=1, retries=0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_graph_that_ends_its_process_fails_alone(tmp_path, monkeypatch):
    settings = CacheSettings(tmp_path)
    for columns in (32, 64):
        extract_graph(graph_of(columns), FLAGS, settings, tell=quiet)
    first = min(settings.version_folder.iterdir())
    first.rename(first.with_name("MODULE_1+01234567"))
    monkeypatch.setattr("trnsim.jax.parallel_compilation.compile_entry_of", killing_entry)
    outcomes = compile_all(settings, quiet, processes=2, retries=0)
    assert sorted((each.is_compiled, each.reason) for each in outcomes) == [
        (False, "the process that compiled it died"),
        (True, ""),
    ]
    states = {entry.state for entry in entries(settings.version_folder)}
    assert states == {EntryState.GRAPH, EntryState.DONE}

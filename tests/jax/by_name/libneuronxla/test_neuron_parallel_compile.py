import json

import pytest

from trnsim.compiler.compile_cache import cache_settings, extract_graph
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput
from trnsim.graph import Graph
from trnsim.jax.by_name.libneuronxla.neuron_cc_cache import CacheUrl
from trnsim.jax.by_name.libneuronxla.neuron_parallel_compile import parallel_compile


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("NEURON_CC_FLAGS", raising=False)
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))

    def put(content):
        return extract_graph(content, ["--target=trn1"], cache_settings(), tell=lambda *_: None)

    return put


def test_the_graphs_of_a_cache_are_compiled_and_reported(store, tmp_path):
    graph = Graph()
    graph.outputs = [graph.elementwise("tanh", graph.input((128, 32), "float32"))]
    path = store(graph_bytes(Subject("m", GraphFile(graph, names={0: "x"}))))
    report = parallel_compile(str(tmp_path / "work"), CacheUrl.get_cache_url())
    assert report["compilation_report"][str(path)]["status"] is True
    stored = json.loads((tmp_path / "work" / "compilation_report.json").read_text())
    assert stored == report


def test_a_graph_that_fails_is_an_error_that_names_it(store, tmp_path):
    path = store(b"trnsim graph 1\n")
    with pytest.raises(BadInput, match=r"^1 of 1 graphs do not compile") as refused:
        parallel_compile(str(tmp_path / "work"), CacheUrl.get_cache_url())
    assert str(path) in refused.value.reason

import pytest

from trnsim.compiler.compile_cache import cache_settings, entries
from trnsim.compiler.compile_cache.cached_compilation import CachedFailure
from trnsim.compiler.compile_cache.entry import EntryState
from trnsim.compiler.stand_in import parse_program
from trnsim.device import program_cache
from trnsim.device.graph_file import GraphFile, parse_graph_file
from trnsim.device.model_report import Subject, report_model
from trnsim.device.program_cache import keep_program, keeps_programs
from trnsim.errors import NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.types import TensorType


def subject(title="step", columns=32):
    graph = Graph()
    graph.outputs = [graph.elementwise("tanh", graph.input((128, columns), "float32"))]
    return Subject(title, GraphFile(graph, names={0: "x"}))


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("NEURON_CC_FLAGS", "NEURON_COMPILE_CACHE_URL", "NEURON_EXTRACT_GRAPHS_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(program_cache, "_told_paths", set())
    return monkeypatch


@pytest.fixture
def cache(environment, tmp_path):
    environment.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    return lambda: entries(cache_settings().version_folder)


class Log(list):
    def __call__(self, component, text):
        self.append((component, text.partition(" (")[0].partition(" at ")[0]))


def test_without_a_name_nothing_is_kept_and_no_graph_is_made():
    assert not keeps_programs()
    keep_program(lambda: pytest.fail("a graph is made"))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("NEURON_COMPILE_CACHE_URL", "/x", True),
        ("NEURON_CC_FLAGS", "--cache_dir=/x", True),
        ("NEURON_CC_FLAGS", "--no_cache", False),
        ("NEURON_CC_FLAGS", "-O1", False),
        ("NEURON_EXTRACT_GRAPHS_ONLY", "1", True),
    ],
)
def test_the_environment_says_whether_programs_are_kept(environment, name, value, expected):
    environment.setenv(name, value)
    assert keeps_programs() is expected


def test_graphs_are_extracted(environment, cache):
    environment.setenv("NEURON_EXTRACT_GRAPHS_ONLY", "1")
    environment.setenv("NEURON_CC_FLAGS", "--model-type=transformer --retry_failed_compilation")
    log = Log()
    for title in ("first", "first", "again"):
        keep_program(lambda title=title: subject(title), log)
    (entry,) = cache()
    assert entry.state is EntryState.GRAPH
    assert entry.flags() == [
        "--target=trn2",
        "--logical-nc-config=2",
        "--model-type=transformer",
    ]
    assert parse_graph_file(entry.graph(), "x").title == "first"
    assert [component for component, _ in log] == ["NEURON_CACHE", *["NEURON_CC_WRAPPER"] * 3]


def test_programs_are_compiled_once_with_the_answer_of_the_compiler(cache):
    log = Log()
    for _ in range(2):
        keep_program(subject, log)
    (entry,) = cache()
    assert (
        parse_program(entry.program_file.read_bytes(), "it").report
        == report_model(subject(), "trn2").as_dict()
    )
    assert log[-1] == ("NEURON_CC_WRAPPER", "Using a cached neff")


def test_a_program_without_a_lowering_of_an_operator_is_extracted_and_not_compiled(
    environment, cache
):
    model = GraphFile(subject().model_graph.graph, missing=("aten::fft: complex numbers",))
    log = []
    keep_program(lambda: Subject("step", model), lambda *words: log.append(words))
    assert log[-1][1] == "step is not kept: 1 operator has no lowering: aten::fft: complex numbers"
    assert cache() == []
    environment.setenv("NEURON_EXTRACT_GRAPHS_ONLY", "1")
    keep_program(lambda: Subject("step", model), Log())
    assert len(cache()) == 1


def test_a_failure_is_remembered(cache, environment):
    def refuse(*_, **__):
        raise NotModelled("no such operation")

    environment.setattr(program_cache, "report_model", refuse)
    with pytest.raises(NotModelled):
        keep_program(subject, Log())
    with pytest.raises(CachedFailure, match="no such operation"):
        keep_program(subject, Log())
    assert [entry.state for entry in cache()] == [EntryState.FAILED]


def test_a_program_with_a_kernel_of_the_users_is_told(cache):
    graph = Graph()
    call = CustomCall("kernel", (TensorType((3,), "float32"),))
    graph.outputs = [graph.apply(call, graph.input((3,), "float32"))]
    log = []
    keep_program(lambda: Subject("step", GraphFile(graph)), lambda *words: log.append(words))
    assert log[-1][1].startswith("step is not kept: a graph that calls a kernel of your own")
    assert cache() == []

from dataclasses import dataclass, replace

import pytest

from trnsim.compiler import Flags
from trnsim.compiler import compile as compile_graph
from trnsim.device import compiled_graph, device_core
from trnsim.device.call_time import TensorSpec, time_of
from trnsim.device.compiled_graph import (
    CompiledGraph,
    compiled_graphs,
    graphs_text,
    record_graph,
    require_room,
)
from trnsim.device.hbm import device_memory
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.graph import Graph
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.collectives import AllReduce
from trnsim.lower import memory_plan


def made(graph, missing=()):
    return CompiledGraph("forward-0", (), graph, memory_plan(graph), (), missing, "")


def test_two_graphs_that_do_the_same_are_two():
    graph = Graph()
    one, other = made(graph), made(graph)
    assert one != other
    assert one.operation == "forward-0"


def test_its_time_is_its_programs_started_once_and_says_what_is_missing():
    graph = Graph()
    x = graph.input((128, 64), "float32")
    graph.outputs = [graph.elementwise("relu", graph.transpose(x, (1, 0)))]
    time = time_of(made(graph, ("one", "two")), "trn2")
    wanted = compile_graph(graph, "trn2", lnc=2)
    assert time.kernels == wanted.costs()
    assert time.device_time_s == pytest.approx(wanted.device_time_s)
    assert time.launch_s == time.kernels[0].launch_s
    assert time.missing_reason == "one; two"


def test_its_time_follows_its_flags_but_casts_which_its_graph_has(monkeypatch):
    settings = []

    def compiled(*args, flags=None, **options):
        settings.append(flags)
        return compile_graph(*args, flags=flags, **options)

    monkeypatch.setattr(compiled_graph.compiler, "compile", compiled)
    graph = Graph()
    graph.outputs = [graph.elementwise("relu", graph.input((128, 64), "float32"))]
    flags = Flags(optlevel=3, auto_cast="all", logical_nc_config=1)
    replace(made(graph), flags=flags).time("trn2")
    assert settings == [Flags(optlevel=3)]


@dataclass(frozen=True)
class Kernel:
    """A kernel of the user's in a graph."""

    constant_bytes: int
    scratchpad_bytes: int

    def outline(self, target):
        assert target == device_core.target().name
        if self.constant_bytes < 0:
            raise NotModelled("not on this chip")
        return self


def test_it_holds_what_dies_inside_and_what_its_kernels_need_one_at_a_time():
    graph = Graph()
    x = graph.input((128, 64), "float32")
    y = graph.transpose(graph.transpose(x, (1, 0)), (1, 0))
    kernels = [Kernel(10, 300), Kernel(20, 200), Kernel(10, 300), Kernel(-1, 9999)]
    for kernel in kernels:
        y = graph.apply(CustomCall(kernel, (y.type,)), y)
    graph.outputs = [graph.elementwise("relu", y)]
    plan = memory_plan(graph)
    one = CompiledGraph("forward-0", (), graph, plan, (), (), "", own_constant_bytes=7)
    assert plan.arena.nbytes > 0
    assert one.constant_bytes == 7 + 10 + 20
    assert one.scratchpad_bytes == plan.arena.nbytes + 300
    assert (made(Graph()).constant_bytes, made(Graph()).scratchpad_bytes) == (0, 0)


def test_exchanges_take_none_of_it_as_they_are_recorded_apart():
    graph = Graph()
    x, w = (graph.input((256, 256), "bfloat16") for _ in range(2))
    summed = graph.apply(AllReduce((tuple(range(8)),), "add"), graph.dot_general(x, w, (1, 1)))
    graph.outputs = [graph.elementwise("relu", summed)]
    linked = compile_graph(graph, "trn2", lnc=2)
    alone = compile_graph(graph, "trn2", lnc=2, is_linked=False)
    assert time_of(made(graph), "trn2").device_time_s == pytest.approx(alone.device_time_s)
    assert alone.device_time_s < linked.device_time_s


@pytest.fixture
def fresh_answers():
    device_core.logical_config.cache_clear()
    yield
    device_core.logical_config.cache_clear()


@pytest.mark.usefixtures("fresh_answers")
@pytest.mark.parametrize(("chip", "cores"), [("trn2", 2), ("trn1", 1)])
def test_a_device_of_two_cores_takes_the_time_of_both(monkeypatch, chip, cores):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    graph = Graph()
    x = graph.input((4096, 2048), "bfloat16")
    graph.outputs = [graph.elementwise("exponential", x)]
    wanted = compile_graph(graph, chip, lnc=cores).device_time_s
    assert time_of(made(graph), chip).device_time_s == pytest.approx(wanted)


@dataclass(frozen=True)
class Spec(TensorSpec):
    """A tensor of a framework."""

    shape: tuple[int, ...]
    dtype: str = "framework.float32"


@pytest.fixture
def compile_for(monkeypatch):
    monkeypatch.setattr(compiled_graph, "_graphs", [])

    def compile_for(*shapes, kind="forward", operators=("add",), missing=()):
        graph = Graph()
        inputs = [graph.input(shape, "float32") for shape in shapes]
        graph.outputs = [graph.elementwise("relu", value) for value in inputs]
        specs = tuple(map(Spec, shapes))
        return record_graph(kind, specs, graph, memory_plan(graph), operators, missing)

    return compile_for


def test_graphs_are_numbered_by_kind_and_say_why_they_are_new(compile_for):
    assert graphs_text() == "nothing was compiled"
    made = [
        compile_for((8, 4)),
        compile_for((8, 4), kind="backward"),
        compile_for((8, 4), operators=("sub",)),
        compile_for((9, 4)),
        compile_for((9, 4)),
    ]
    assert [(one.name, one.reason) for one in made] == [
        ("forward-0", "the first of its kind"),
        ("backward-0", "the first of its kind"),
        ("forward-1", "the first of its kind"),
        ("forward-2", "input 0 was float32[8, 4] in forward-0 and is float32[9, 4] here"),
        ("forward-3", "as forward-2, for another function"),
    ]
    assert compiled_graphs() == tuple(made)


def test_a_kind_whose_name_begins_with_that_of_another_is_numbered_alone(compile_for):
    compile_for((8, 4), kind="jit_step-fused")
    made = [compile_for((9, 4), kind="jit_step"), compile_for((7, 4), kind="jit_step-fused")]
    assert [(graph.name, graph.reason) for graph in made] == [
        ("jit_step-0", "the first of its kind"),
        (
            "jit_step-fused-1",
            "input 0 was float32[8, 4] in jit_step-fused-0 and is float32[7, 4] here",
        ),
    ]


def test_the_text_has_sizes_memory_and_what_is_missing(compile_for):
    one = compile_for((256, 4), (8, 8), missing=("svd has no lowering",))
    assert graphs_text().splitlines() == [
        "forward-0: 1 operator; the first of its kind",
        "  inputs   [256, 4], [8, 8]",
        "  memory   8.5 KiB at most, 4.25 KiB of it inputs",
        f"  arena    {one.plan.arena_text()}",
        "  on host  svd has no lowering",
    ]


def test_a_graph_is_refused_from_the_first_byte_that_does_not_fit(compile_for, monkeypatch):
    one, memory = compile_for((256, 4)), device_memory(0)
    fresh = one.plan.fresh_bytes
    assert fresh == 4096
    monkeypatch.setattr(memory, "live_bytes", 0)
    monkeypatch.setattr(memory, "peak_bytes", 0)
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + fresh)
    require_room(one, 0)
    assert memory.peak_bytes == memory.live_bytes + fresh
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + fresh - 1)
    with pytest.raises(OutOfMemory, match=r"forward-0 needs 4 KiB of HBM beside the") as caught:
        require_room(one, 0)
    assert "At its peak it holds\n" in str(caught.value)
    assert caught.value.reason.startswith("NCC_EVRF009: forward-0")
    monkeypatch.setattr(memory, "live_bytes", 1 << 20)
    monkeypatch.setattr(memory, "capacity_bytes", (1 << 20) + fresh - 1)
    with pytest.raises(OutOfMemory, match=r"^forward-0 needs"):  # alone it would fit
        require_room(one, 0)
    assert caught.value.line.file == __file__

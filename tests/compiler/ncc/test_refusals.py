import pytest

from trnsim.compiler import Flags
from trnsim.compiler.ncc.calls import CallTensor, FrameworkCall
from trnsim.compiler.ncc.refusals import CompilerRefusal, Refusal, refusals
from trnsim.errors import OutOfMemory, SourceLine
from trnsim.graph import Graph
from trnsim.graph.ops.reductions import TopK
from trnsim.lower import memory_plan

LINE = SourceLine("model.py", 7)


def gathering():
    """A graph that counts past the end of a table."""
    graph = Graph()
    graph.outputs = [graph.gather(graph.input((3, 4), "float32"), graph.iota((5,), 0))]
    return graph


def test_a_plain_graph_is_accepted():
    graph = Graph()
    x, w = graph.input((4, 4), "float32"), graph.input((4, 4), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    for target in ("trn1", "inf2", "trn2", "trn3"):
        assert refusals(graph, target, Flags(implicit_integer_downcast=())) == ()


def test_a_refusal_has_the_operator_the_line_the_remedy_and_the_page():
    graph = gathering()
    call = FrameworkCall(
        "aten::embedding", "embedding", {"weight": CallTensor((3, 4), "float32")}, (), LINE
    )
    (found,) = refusals(graph, origins={graph.nodes[-1].result.number: call})
    assert found.code == "NCC_EVRF056"
    assert str(found.error()) == (
        "NCC_EVRF056: aten::embedding, gather of tensor<3x4xfloat32>, tensor<5xint32>: places to 4 "
        "in a length of 3; places that a gather counts up run past the tensor's end\n"
        "  fix: count no further than the tensor is long: a model's sequences are no longer than "
        "its table of positions (max_position_embeddings)\n"
        "  source: aws-neuron-sdk compiler/error-codes/EVRF056.rst\n"
        "  at model.py:7"
    )
    assert str(found).endswith("(max_position_embeddings) (at model.py:7)")


def test_without_an_origin_a_refusal_has_no_line():
    (found,) = refusals(gathering())
    assert found.line is None
    assert found.subject.startswith("gather of ")
    assert "(at " not in str(found)


def test_nodes_of_a_framework_without_calls_are_checked_themselves():
    graph = Graph()
    graph.outputs = list(graph.apply_to_all(TopK(2), [graph.input((4,), "int32")]))
    number = graph.nodes[-1].result.number
    named = FrameworkCall("jax::top_k", "top_k", {}, (), LINE)
    (found,) = refusals(graph, origins={number: named})
    assert (found.code, found.line) == ("NCC_EVRF013", LINE)
    assert found.subject.startswith("jax::top_k, top_k of ")
    call = FrameworkCall("aten::topk", "topk", {"self": CallTensor((4,), "int32")}, (), LINE)
    assert len(refusals(graph, calls=[call], origins={number: call})) == 1


def test_what_is_refused_twice_is_said_once():
    call = FrameworkCall("aten::topk", "topk", {"self": CallTensor((4,), "int32")}, (), LINE)
    assert len(refusals(Graph(), calls=[call, call])) == 1
    other = FrameworkCall(
        "aten::topk", "topk", {"self": CallTensor((4,), "int32")}, (), SourceLine("b.py", 1)
    )
    assert [one.line for one in refusals(Graph(), calls=[call, other])] == [LINE, other.line]


@pytest.mark.parametrize(
    ("target", "cores", "is_refused"),
    [("trn1", 2, 1), ("inf2", 2, 1), ("trn1", 1, 0), ("trn1", None, 0), ("trn2", 2, 0)],
)
def test_logical_cores_are_of_chips_that_have_them(target, cores, is_refused):
    found = refusals(Graph(), target, Flags(logical_nc_config=cores))
    assert [one.code for one in found] == ["NCC_EARG001"] * is_refused
    if is_refused:
        assert found[0].subject == f"--logical-nc-config=2 on {target}"
        assert found[0].ncc_error.is_final


def test_memory_and_instructions_are_judged_where_they_are_known():
    graph = gathering()
    plan = memory_plan(graph)
    found = refusals(graph, plan=plan, hbm_bytes=10, instructions=6_000_000)
    assert [one.code for one in found] == ["NCC_EVRF056", "NCC_EVRF009", "NCC_EVRF007"]
    assert isinstance(found[1].error(), OutOfMemory)
    assert isinstance(found[2].error(), CompilerRefusal)
    assert isinstance(found[2].error(), RuntimeError)
    assert [one.code for one in refusals(graph, plan=plan, hbm_bytes=1 << 20)] == ["NCC_EVRF056"]


@pytest.mark.parametrize("code", ["NCC_EOOM001", "NCC_EXSP001", "NCC_EVRF009"])
def test_what_does_not_fit_is_out_of_memory(code):
    assert isinstance(Refusal(code, "16 GiB").error(), OutOfMemory)
    assert Refusal(code, "16 GiB").ncc_error.is_final

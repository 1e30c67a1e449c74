import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.torch.traces.fx_program import graph_module
from trnsim.torch.traces.tracing import FrozenBranch

X = torch.tensor([1.0, 2.0])
READS = {
    "if": lambda x: x + 1 if x.sum() > 0 else x - 1,
    "item": lambda x: x + (1 if x[0].item() else 2),
    "number": lambda x: x + x[0].item(),
    "equal": lambda x: x + 1 if torch.equal(x, x.clone()) else x - 1,
    "index": lambda x: x + range(5)[int(x[0])],
}


@pytest.mark.slow_but("if")
@pytest.mark.parametrize("read", READS)
def test_control_flow_is_frozen_as_the_example_has_it_and_its_line_named(stored, read):
    with pytest.warns(FrozenBranch, match=r"at .*test_branches.py:.*for every input"):
        _, program = stored(READS[read], X)
    assert torch.equal(graph_module(program, "cpu")(-X)[0], -X + 1)


@pytest.mark.slow
def test_a_read_in_a_loop_is_said_once(stored):
    def loop(x):
        for _ in range(3):
            if x.sum() > 100:
                x = x + 1
        return x

    with pytest.warns(FrozenBranch, match=r"\(3 times\)") as warned:
        stored(loop, X)
    assert len(warned) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [lambda x: x.nonzero(), lambda x: x[x > 1], lambda x: x.unique()]
)
def test_a_result_whose_size_depends_on_values_is_refused(stored, function):
    with pytest.raises(CompilerRefusal, match=r"NCC_EMOD025.*gives") as refused:
        stored(function, X)
    assert refused.value.line.file == __file__

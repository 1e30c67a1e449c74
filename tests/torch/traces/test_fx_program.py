from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.fx_program import graph_module
from trnsim.torch.traces.stored import StoredProgram


def test_a_graph_computes_what_was_traced(stored):
    def function(x, y):
        top, index = torch.topk(x, 2)
        return top + y.select(0, 1), index, y.t()

    x, y = torch.randn(3, 4), torch.randn(3, 2)
    _, program = stored(function, (x, y))
    module = graph_module(StoredProgram.from_bytes(program.to_bytes()), "cpu")
    for actual, expected in zip(module(x, y), function(x, y), strict=True):
        torch.testing.assert_close(actual, expected)


def test_weights_come_before_inputs_and_results_have_their_metadata(scaled):
    module = graph_module(scaled, "neuron")
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    (call,) = (node for node in module.graph.nodes if node.op == "call_function")
    assert inputs == ["weight_0", "input_0"]
    assert call.meta["val"].shape == (2, 2)
    assert call.meta["val"].device.type == "neuron"
    assert call.meta["nn_module_stack"] == {"": ("", "Scaled")}


def test_a_result_of_a_storage_that_begins_earlier_keeps_its_place(stored):
    _, program = stored(lambda x: x[1:], torch.ones(3, 2))
    (call,) = (n for n in graph_module(program, "cpu").graph.nodes if n.op == "call_function")
    assert call.meta["val"].storage_offset() == 2


def test_an_empty_result_within_a_storage_keeps_its_place(stored):
    _, program = stored(lambda x: x[0:0, 3:5] * 1 + x[0:0, 3:5], torch.ones(4, 8))
    calls = [n for n in graph_module(program, "cpu").graph.nodes if n.op == "call_function"]
    values = [call.meta["val"] for call in calls]
    assert {value.numel() for value in values[1:]} == {0}
    assert 3 in {value.storage_offset() for value in values}


@pytest.mark.parametrize(
    "operator",
    [
        *(
            "aten.from_file.default",
            "aten.save.default",
            "prim.device.default",
            "os.system.default",
        ),
        *("aten.__class__.default", "aten._print.default", "aten.mul", "aten.mul.Nothing"),
        *("ops.aten.mul", "aten.mul.overloads", "c10d.broadcast_.default", ""),
        *("neuron.ranks_write.default", "inductor._reinterpret_tensor.default"),
    ],
)
def test_an_operator_that_does_more_than_compute_is_refused(scaled, operator):
    calls = [replace(scaled.calls[0], operator=operator)]
    with pytest.raises(BadInput, match="a call of"):
        graph_module(replace(scaled, calls=calls), "cpu")


@pytest.mark.parametrize("name", ["other=print('run'), self", "from", "", "alpha"])
def test_an_argument_that_an_operator_lacks_is_no_code_that_fx_runs(scaled, name, capsys):
    calls = [replace(scaled.calls[0], kwargs={name: 0})]
    with pytest.raises(BadInput, match=r"an argument .* of aten\.mul\.Tensor, which trnsim never"):
        graph_module(replace(scaled, calls=calls), "cpu")(torch.ones(2), torch.ones(2, 2))
    assert not capsys.readouterr().out


def test_an_operator_of_a_library_that_is_not_imported_names_the_library(scaled):
    calls = [replace(scaled.calls[0], operator="somewhere.grouped.default")]
    with pytest.raises(
        BadInput,
        match=r"'somewhere\.grouped\.default', an operator of a library that is not imported here\n"
        r"  fix: import the library that registers torch\.ops\.somewhere, then load",
    ):
        graph_module(replace(scaled, calls=calls), "cpu")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [([{"%": 0}, 0], {}), ([{"%": 5}, 0], {}), ([1, 0], {}), ([{"%": 1}, 0], {"a": 1}), ([], {})],
)
def test_a_part_is_one_of_several_results(scaled, args, kwargs):
    calls = [replace(scaled.calls[0], operator="getitem", args=args, kwargs=kwargs)]
    with pytest.raises(BadInput, match="which trnsim never writes"):
        graph_module(replace(scaled, calls=calls), "cpu")


@pytest.fixture
def experts():
    """transformers' operator, where it is not installed: each expert's matrix for its own rows."""

    def product(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        begins = [0, *ends.tolist()]
        return torch.cat(
            [rows[a:b] @ m for a, b, m in zip(begins, ends.tolist(), matrices, strict=False)]
        )

    library = torch.library.Library("transformers", "FRAGMENT")
    library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
    library.impl("grouped_mm_fallback", product, "CPU")
    library.impl("grouped_mm_fallback", lambda x, y, _: x.new_empty(x.shape[0], y.shape[2]), "Meta")

    def call(rows, matrices, ends):
        return torch.ops.transformers.grouped_mm_fallback(rows, matrices, ends)

    yield call
    library._destroy()


@pytest.mark.parametrize(
    ("width", "dtype", "operator"),
    [
        (8, torch.int32, "aten._grouped_mm.default"),
        (6, torch.int32, "transformers.grouped_mm_fallback.default"),  # rows of 24 bytes
        (8, torch.int64, "transformers.grouped_mm_fallback.default"),
    ],
)
def test_products_of_experts_are_stored_as_pytorchs_own(stored, experts, width, dtype, operator):
    rows, matrices = torch.randn(5, 8), torch.randn(3, 8, width)
    ends = torch.tensor([2, 2, 5], dtype=dtype)
    _, program = stored(experts, (rows, matrices, ends))
    assert program.calls[0].operator == operator
    module = graph_module(StoredProgram.from_bytes(program.to_bytes()), "cpu")
    (result,) = module(rows, matrices, ends)
    torch.testing.assert_close(result, experts(rows, matrices, ends))

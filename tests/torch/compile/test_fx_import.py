import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.lower import evaluate, fusion_groups
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered

# PyTorch's own export copies a class that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")


def exported(function, *args):
    class Model(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return torch.export.export(Model(), args).run_decompositions().graph_module


def test_a_chain_of_operators_is_one_kernel():
    found = import_graph(exported(lambda x: (x * 2).exp() + 1, torch.randn(4, 4)))
    (group,) = fusion_groups(found.graph)
    assert group.name == "multiply+exponential+add"
    assert [spec.shape for spec in found.inputs] == [(4, 4)]
    assert not found.missing


def test_what_an_operator_without_a_lowering_reads_is_still_computed():
    found = import_graph(exported(lambda x: torch.linalg.svdvals(x * 2) + 1, torch.randn(4, 4)))
    assert len(found.missing) == 1
    assert "linalg_svd" in found.missing[0]
    assert [group.name for group in fusion_groups(found.graph)] == ["multiply", "add"]


def test_inputs_are_named_as_in_pytorchs_graph():
    found = import_graph(exported(lambda x, y: x @ y, torch.randn(4, 4), torch.randn(4, 4)))
    assert set(found.names.values()) == {"args_0", "args_1"}


def test_sizes_are_numbers():
    found = import_graph(exported(lambda x: x * x.shape[0], torch.randn(4, 4)))
    assert found.operators == ("aten::mul.Tensor",)


def test_an_operator_gives_one_tensor_where_its_kin_gives_two():
    x = torch.randn(1, 1, 4, 4)
    found = import_graph(exported(lambda x: torch.nn.functional.max_pool2d(x, 2) * 2, x))
    assert not found.missing
    (result,) = evaluate(found.graph, [x.numpy()])
    torch.testing.assert_close(
        torch.from_numpy(result), torch.nn.functional.max_pool2d(x, 2) * 2, rtol=0, atol=0
    )


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_the_larger_of_two_tensors_is_no_reduction(function):
    x, y = torch.randn(3, 4), torch.randn(4)
    found = import_graph(exported(lambda x, y: function(x, y) + 1, x, y))
    assert not found.missing
    (result,) = evaluate(found.graph, [x.numpy(), y.numpy()])
    torch.testing.assert_close(torch.from_numpy(result), function(x, y) + 1)


def test_an_operator_with_a_lowering_need_not_be_decomposed():
    assert is_lowered("aten::gelu")
    assert is_lowered("aten::add_.Tensor")
    assert not is_lowered("aten::linalg_eig")


def exchanging(x):
    total = torch.ops._c10d_functional.all_reduce(x, "sum", "tp")
    return torch.ops._c10d_functional.wait_tensor(total) + 1


def test_a_collective_of_a_group_that_is_known_is_an_operation():
    module = exported(exchanging, torch.randn(4, 3))
    found = import_graph(module, {"tp": ((0, 1), (2, 3))})
    assert not found.missing
    assert [node.name for node in found.graph.nodes] == ["all_reduce", "add"]
    assert found.graph.nodes[0].operation.replica_groups == ((0, 1), (2, 3))


def test_a_collective_of_another_group_is_missing_by_name():
    found = import_graph(exported(exchanging, torch.randn(4, 3)))
    assert found.missing == (
        "_c10d_functional::all_reduce: a group 'tp' whose ranks are not known",
    )


def test_an_operator_that_gives_one_of_several_results_gives_that():
    pool = torch.nn.functional.max_pool2d
    module = torch.export.export(torch.nn.MaxPool2d(2), (torch.randn(1, 2, 4, 4),))
    lowered = module.run_decompositions(pytorch.decompositions(is_lowered))
    found = import_graph(lowered.graph_module)
    x = torch.randn(1, 2, 4, 4)
    torch.testing.assert_close(torch.from_numpy(found.graph.reference([x.numpy()])[0]), pool(x, 2))


def names_of(function, *args):
    """The operations that a function becomes, and whether they give what PyTorch gives."""
    found = import_graph(exported(function, *args))
    assert not found.missing
    (result,) = evaluate(found.graph, [one.numpy() for one in args])
    torch.testing.assert_close(torch.from_numpy(result), function(*args), check_dtype=False)
    return [node.name for node in found.graph.nodes]


@pytest.mark.slow
def test_maxima_whose_places_nobody_reads_are_one_operation():
    x = torch.randn(2, 3, 7, 9)
    pool = torch.nn.functional.max_pool2d
    assert names_of(lambda x: pool(x, 3, 2, 1) * 2, x) == ["reduce_window", "multiply"]
    places = names_of(lambda x: pool(x, 3, 2, 1, return_indices=True)[1], x)
    assert "reduce_window" not in places


@pytest.mark.slow
def test_averages_over_windows_of_as_many_elements_are_one_operation():
    x = torch.randn(2, 3, 7, 9)
    pool = torch.nn.functional.avg_pool2d
    assert names_of(lambda x: pool(x, 2), x) == ["reduce_window", "multiply"]
    assert names_of(lambda x: pool(x, 3, 2, 1), x) == ["reduce_window", "multiply"]
    assert names_of(lambda x: pool(x, 3, 1, divisor_override=2), x).count("reduce_window") == 1
    uneven = names_of(lambda x: pool(x, 3, 2, 1, count_include_pad=False), x)
    assert "reduce_window" not in uneven
    assert "reduce_window" not in names_of(lambda x: pool(x, 2, ceil_mode=True), x)


def test_averages_over_all_places_are_a_sum():
    x = torch.randn(2, 3, 4, 5)
    names = names_of(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1), x)
    assert "dot_general" not in names


def test_a_convolution_is_one_operation():
    x, w = torch.randn(2, 3, 7, 9), torch.randn(4, 3, 3, 3)
    assert names_of(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), x, w) == [
        "convolution"
    ]


@pytest.mark.slow
def test_elements_that_are_copied_a_whole_number_of_times_are_repeated():
    x = torch.randn(1, 2, 3, 4)
    grow = torch.nn.functional.interpolate
    assert names_of(lambda x: grow(x, scale_factor=2.0), x) == ["broadcast_in_dim", "reshape"]
    assert names_of(lambda x: grow(x, size=(6, 4)), x) == ["broadcast_in_dim", "reshape"]
    assert "dot_general" in names_of(lambda x: grow(x, scale_factor=1.5), x)
    assert "dot_general" in names_of(lambda x: grow(x, size=(7, 4)), x)


def test_the_padding_of_maxima_is_finite_in_every_format():
    x = torch.randn(1, 1, 4, 4, dtype=torch.bfloat16)
    pool = torch.nn.functional.max_pool2d
    found = import_graph(exported(lambda x: pool(x, 3, 2, 1, return_indices=True)[1], x))
    (pad,) = [node for node in found.graph.nodes if node.name == "pad"]
    number = torch.tensor(pad.operation.number)
    assert number.to(torch.bfloat16).isfinite()
    assert number.to(torch.bfloat16) == torch.finfo(torch.bfloat16).min


def lowered(function, *args):
    """The graph as torch.compile's tracer has it."""
    from torch.fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415  only this needs it

    return make_fx(function, tracing_mode="fake")(*args)


def test_what_is_made_empty_is_no_operator():
    def function(x):
        made = torch.ops.aten.new_empty_strided.default(x, [3, 4], [4, 1])
        return torch.ops.aten.copy.default(made, x) + 1

    found = import_graph(lowered(function, torch.randn(3, 4)))
    assert not found.missing
    assert [value.shape for value in found.graph.inputs] == [(3, 4)]


def test_what_a_program_asserts_of_values_runs_nothing():
    def function(x):
        torch.ops.aten._assert_async.msg((x > 0).all(), "above zero")
        return x + 1

    found = import_graph(lowered(function, torch.rand(3, 4)))
    assert not found.missing
    assert [node.name for node in found.graph.nodes] == ["add"]


def test_an_input_that_is_only_returned_stays_and_what_is_empty_goes():
    found = import_graph(lowered(lambda x, y: (x, y[:0], x + 1), torch.rand(3), torch.rand(4)))
    assert [value.shape for value in found.graph.outputs] == [(3,), (3,)]
    assert [place for place, _ in found.orders] == [0, 2]
    returned = import_graph(lowered(torch.empty_like, torch.rand(3)))
    assert returned.graph.inputs[1:] == returned.graph.outputs


def chosen(x, y):
    def larger(x, y):
        return (x @ y).sin(), x + 1

    def smaller(x, y):
        return x @ y - 1, x * y.sum()

    return torch.cond(x.sum() > y.sum(), larger, smaller, (x, y))


def test_a_value_chooses_between_graphs():
    x, y = torch.randn(3, 5), torch.randn(5, 4)
    found = import_graph(exported(chosen, x, y))
    assert not found.missing
    assert found.graph.nodes[-1].name == "if"
    assert "aten::sin" in found.operators
    for a, b in ((x, y), (x.abs(), -y.abs()), (-x.abs(), y.abs())):
        for mine, theirs in zip(
            evaluate(found.graph, [a.numpy(), b.numpy()]), chosen(a, b), strict=True
        ):
            torch.testing.assert_close(torch.from_numpy(mine), theirs, rtol=1e-5, atol=1e-5)


def test_a_branch_that_cannot_be_lowered_is_named():
    def choose(x):
        return torch.cond(x.sum() > 0, torch.special.bessel_j0, torch.sin, (x,))

    (missing,) = import_graph(exported(choose, torch.randn(4, 4))).missing
    assert missing.startswith("cond: a branch calls aten::special_bessel_j0")


def test_branches_of_symbolic_sizes_are_named():
    def choose(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    class Model(torch.nn.Module):
        def forward(self, x):
            return choose(x)

    size = torch.export.Dim("rows", min=2, max=9)
    module = torch.export.export(Model(), (torch.randn(4, 4),), dynamic_shapes=({0: size},))
    sized = pytorch.with_sizes_of(module.run_decompositions().graph_module, [torch.randn(5, 4)])
    (missing,) = import_graph(sized).missing
    assert missing == "cond: its branches have symbolic sizes; compile with dynamic=False"

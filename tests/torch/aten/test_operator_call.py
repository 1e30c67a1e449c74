import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch import pytorch
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.decompositions import DECOMPOSITIONS
from trnsim.torch.aten.operator_call import build, call_of, graph_of, plain_name

X = torch.zeros(4, 6)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("aten::add_.Tensor", "add"),
        ("aten::where.self_out", "where"),
        ("aten::__and__.Scalar", "__and__"),
        ("aten::_foreach_mul_.Scalar", "_foreach_mul"),
    ],
)
def test_plain_names(name, plain):
    assert plain_name(name) == plain


def test_equal_calls_have_one_graph():
    one, other = (call_of("aten::add.Tensor", (X, X), {"alpha": 2}, X) for _ in range(2))
    assert one == other
    assert graph_of(one) is graph_of(other)
    assert len(graph_of(one).inputs) == 2


def test_a_number_of_the_host_is_a_number():
    call = call_of("aten::mul.Tensor", (X, torch.tensor(2.0)), {}, X)
    assert call.args[1] == 2.0


def test_an_operator_without_an_importer_says_so_by_name():
    with pytest.raises(Unlowered, match=r"aten::linalg_qr has no lowering"):
        graph_of(call_of("aten::linalg_qr", (X,), {}, X))


def test_a_form_that_is_missing_says_what_it_is():
    with pytest.raises(Unlowered, match=r"aten::mul\.Tensor has no lowering for torch\.float64"):
        graph_of(call_of("aten::mul.Tensor", (X.double(), 2), {}, X.double()))
    with pytest.raises(Unlowered, match=r"aten::mul\.Tensor has no lowering for these arguments"):
        graph_of(call_of("aten::mul.Tensor", (X,), {}, X))


def test_an_operator_on_nothing_takes_no_kernel():
    assert not graph_of(call_of("aten::neg", (X[:0],), {}, X[:0])).nodes


def test_most_core_operators_are_lowered():
    core = [
        name
        for name in pytorch.operators()
        if name.startswith("aten::")
        and (operator := pytorch.overload(name)) is not None
        and torch.Tag.core in operator.tags
    ]
    lowered = [name for name in core if plain_name(name) in DECOMPOSITIONS]
    assert len(core) == 193
    assert len(lowered) >= 136


def test_calls_with_numbers_that_equal_nothing_are_equal():
    x = torch.zeros(3)
    found = [call_of("aten::fill_.Scalar", (x, float("nan")), {}, x) for _ in range(2)]
    assert found[0] == found[1]
    assert hash(found[0]) == hash(found[1])


def test_a_number_divided_by_is_not_said_to_be_a_tensor_without_elements(monkeypatch):
    monkeypatch.setitem(DECOMPOSITIONS, "relu", lambda *_: 1 / 0)
    x = torch.ones(3)
    call = call_of("aten::relu", (x,), {}, x)
    with pytest.raises(Unlowered, match="aten::relu has no lowering for a zero that it divides by"):
        build(call)


def test_an_argument_that_a_decomposition_does_not_take_is_named(monkeypatch):
    def relu(b, x):
        """Takes no alpha."""

    monkeypatch.setitem(DECOMPOSITIONS, "relu", relu)
    x = torch.ones(3)
    call = call_of("aten::relu", (x,), {"alpha": 2}, x)
    with pytest.raises(Unlowered, match=r"has no lowering for the argument alpha"):
        build(call)

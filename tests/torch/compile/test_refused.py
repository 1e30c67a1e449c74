import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch._dynamo.exc import BackendCompilerFailed

from trnsim.compiler.ncc.refusals import CompilerRefusal, Refusal
from trnsim.device import compiled_graph
from trnsim.errors import OutOfMemory, SourceLine
from trnsim.torch.compile.refused import CompilerWarning, raise_or_warn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TWO = (
    Refusal("NCC_EVRF013", "aten::topk on int32[4]", SourceLine("model.py", 3)),
    Refusal("NCC_EVRF018", "aten::max_pool2d on float32[1, 1, 4, 4]"),
)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])
    yield
    torch.neuron.set_policy("host")


@pytest.fixture
def said():
    """The warnings of a test, all of them."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CompilerWarning)
        yield found


def on_device(function, **options):
    return torch.compile(function, backend="neuron", dynamic=False, **options)


def test_under_the_policy_chip_the_first_refusal_is_an_error(said):
    torch.neuron.set_policy("chip")
    with pytest.raises(CompilerRefusal, match=r"NCC_EVRF013: aten::topk on int32\[4\]"):
        raise_or_warn(TWO)
    assert not said


def test_under_the_policy_host_each_refusal_is_a_warning_that_names_the_code(said):
    raise_or_warn(TWO)
    texts = [str(one.message) for one in said]
    assert [text.partition(":")[0] for text in texts] == ["NCC_EVRF013", "NCC_EVRF018"]
    assert "(at model.py:3)" in texts[0]
    assert "fix: cast the tensor to float32 first" in texts[0]
    assert all("TRNSIM_POLICY=chip makes this an error" in text for text in texts)


@pytest.mark.parametrize("policy", ["chip", "host"])
def test_what_nothing_stands_in_for_is_an_error_under_either_policy(policy):
    torch.neuron.set_policy(policy)
    with pytest.raises(OutOfMemory, match="NCC_EOOM001: 16 GiB"):
        raise_or_warn([Refusal("NCC_EOOM001", "16 GiB")])


def test_a_compiled_function_warns_with_the_users_line_and_still_computes(said):
    def largest(x):
        return torch.topk(x, 2).values

    x = torch.tensor([3, 1, 4, 1], device="neuron")
    assert on_device(largest)(x).tolist() == [4, 3]
    (one,) = (str(warning.message) for warning in said)
    assert one.startswith("NCC_EVRF013: aten::topk on int64[4]; TopK takes no integers")
    assert f"{__file__}:{largest.__code__.co_firstlineno + 1}" in one


def test_a_compiled_function_is_refused_under_the_policy_chip():
    torch.neuron.set_policy("chip")
    with pytest.raises(BackendCompilerFailed, match="NCC_EVRF013"):
        on_device(lambda x: torch.topk(x, 2).values)(torch.arange(4, device="neuron"))
    assert not compiled_graph.compiled_graphs()


def test_a_gradient_is_refused_at_the_line_of_the_forward_pass(said):
    """Strides of a dilated convolution are gaps in the input of its gradient."""
    layer = torch.nn.Conv1d(1, 1, 3, stride=2, dilation=2).to("neuron")

    def loss(x):
        y = layer(x)
        return y.sum()

    x = torch.ones(1, 1, 12, device="neuron", requires_grad=True)
    on_device(loss)(x).backward()
    (one,) = (str(warning.message) for warning in said)
    assert one.startswith("NCC_EVRF010: aten::convolution_backward")
    assert f"{__file__}:{loss.__code__.co_firstlineno + 1}" in one


def test_a_graph_of_symbolic_sizes_is_said_once(said):
    function = torch.compile(lambda x: (x * 2).exp(), backend="neuron", dynamic=True)
    for rows in (3, 5):
        x = torch.zeros(rows, device="neuron", requires_grad=True)
        function(x).sum().backward()
        assert x.grad.tolist() == [2.0] * rows
    (one,) = (str(warning.message) for warning in said)
    assert one.startswith("NCC_EMOD025: an input float32[?]")


@pytest.mark.parametrize(
    ("options", "environment", "is_refused"),
    [
        ({}, "", False),
        ({}, "--implicit-integer-downcast=none", True),
        ({"implicit_integer_downcast": "none"}, "", True),
        ({"implicit_integer_downcast": "dot"}, "--implicit-integer-downcast=none", False),
        ({"compiler_args": ["--implicit-integer-downcast", "pow"]}, "", True),
    ],
)
def test_flags_come_from_the_environment_and_from_options(
    options, environment, is_refused, said, monkeypatch
):
    monkeypatch.setenv("NEURON_CC_FLAGS", environment)
    x = torch.ones(3, 3, dtype=torch.int32, device="neuron")
    assert on_device(lambda x: x @ x, options=options)(x).tolist() == [[3] * 3] * 3
    assert ["NCC_EVRF035" in str(one.message) for one in said] == [True] * is_refused


def test_a_cast_changes_the_compiled_graph_and_the_flags_stay_with_it():
    def function(x):
        return x @ x

    x = torch.ones(64, 64, device="neuron")
    on_device(function)(x)
    torch._dynamo.reset()
    on_device(function, options={"auto_cast": "matmult"})(x)
    plain, cast = compiled_graph.compiled_graphs()
    assert [node.name for node in plain.graph.nodes] == ["dot_general"]
    assert [node.name for node in cast.graph.nodes] == ["convert", "dot_general"]
    assert (plain.flags.auto_cast, cast.flags.auto_cast) == ("none", "matmult")
    assert cast.graph.outputs[0].dtype == "float32"


def test_a_flag_without_an_effect_is_said(said):
    options = {"enable_fast_loading_neuron_binaries": True}
    on_device(lambda x: x + 1, options=options)(torch.ones(2, device="neuron"))
    assert [str(one.message) for one in said] == [
        "--enable-fast-loading-neuron-binaries has no effect: no binary is made or loaded"
    ]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"auto_cats": "all"}, "--auto-cats is no flag of neuronx-cc"),
        ({"auto_cast": "bf16"}, "legal: none, matmult or all"),
    ],
    ids=str,
)
def test_an_option_that_is_no_flag_is_refused(options, wanted):
    with pytest.raises(BackendCompilerFailed, match=wanted):
        on_device(lambda x: x + 1, options=options)(torch.ones(2, device="neuron"))

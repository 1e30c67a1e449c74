import io
import json

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.compiler import Flags
from trnsim.errors import BadInput
from trnsim.torch.compile.refused import CompilerWarning
from trnsim.torch.models.model_graph import module_graph
from trnsim.torch.models.subjects import Subject, report_model
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.trace import compile_function, trace

X = torch.randn(2, 4)

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x):
        cache = self.cache + x
        return {"y": self.linear(cache), "cache": cache}


def test_values_are_those_of_the_model_after_saving_too():
    model = nn.Linear(4, 3)
    traced = trace(model, X)
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    stream.seek(0)
    assert torch.equal(traced(X), model(X))
    assert torch.equal(torch.jit.load(stream)(X), model(X))
    assert not traced(X).requires_grad


def test_the_time_is_that_of_trnsim_compile():
    model = nn.Sequential(nn.Linear(4, 64), nn.GELU())
    compiled = compile_function(model, X, {}, "--auto-cast=matmult")
    report = report_model(
        Subject("", module_graph(model, (X,))), "trn2", Flags.parse("--auto-cast=matmult")
    )
    assert compiled.report.time_s == report.time_s
    assert compiled.report.plan.peak_bytes == report.plan.peak_bytes
    stored = compiled.program.estimate
    assert stored["estimate"]["p50_s"] == report.time_s
    assert stored["bound"] == report.scaled_estimate.binds


def test_states_stay_on_the_core_and_are_not_returned():
    model = Cached()
    traced = trace(model, X, input_output_aliases={model.cache: 1})
    for steps in (1, 2):
        assert list(traced(X)) == ["y"]
        torch.testing.assert_close(traced(X)["y"], model.linear(2 * steps * X))
    assert not model.cache.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aliases", "match"),
    [
        (lambda model: {model.cache.clone(): 1}, "that Cached does not read"),
        (lambda model: {model.cache: 2}, "names output 2; Cached returns 2 tensors"),
        (lambda model: {model.cache: -1}, "names output -1"),
        (lambda model: {model.linear.weight: 1}, r"output 1 of Cached is float32\[2, 4\]"),
    ],
)
def test_states_are_tensors_of_the_model_and_outputs_like_them(aliases, match):
    model = Cached()
    with pytest.raises(BadInput, match=match) as refused:
        trace(model, X, input_output_aliases=aliases(model))
    assert refused.value.line.file == __file__


@pytest.mark.slow
def test_flags_are_those_of_the_compiler():
    program = compile_function(nn.Linear(4, 3), X, {}, ["--auto-cast", "all"]).program
    assert program.flags == ["--auto-cast=all", "--auto-cast-type=bf16"]
    with pytest.raises(BadInput, match="compiler_args: --fast is no flag"):
        trace(nn.Linear(4, 3), X, compiler_args="--fast")
    with pytest.warns(CompilerWarning, match="--verbose=35 has no effect"):
        trace(nn.Linear(4, 3), X, compiler_args="--verbose=35")


@pytest.mark.slow
def test_casts_change_values_as_they_change_the_program():
    model = nn.Linear(64, 3)
    x = torch.randn(2, 64)
    result = trace(model, x, compiler_args="--auto-cast=matmult")(x)
    expected = x.bfloat16().float() @ model.weight.bfloat16().float().t() + model.bias
    torch.testing.assert_close(result, expected.detach())
    assert not torch.equal(result, model(x))


@pytest.mark.slow
def test_cpu_backend_compiles_for_the_chip_that_is_named():
    with pytest.raises(BadInput, match="without a chip"):
        trace(nn.Linear(4, 3), X, cpu_backend=True)
    with pytest.warns(CompilerWarning):
        traced = trace(nn.Linear(4, 3), X, cpu_backend=True, compiler_args="--target trn1")
    with pytest.raises(RuntimeError, match="compiled for trn1 with 1 NeuronCore"):
        traced(X)


@pytest.mark.parametrize(
    ("aliases", "match"),
    [
        ([1], "input_output_aliases is a list; legal: a dictionary"),
        ({X: "1"}, "input_output_aliases is a tensor with '1'; legal"),
        ({"state": 1}, "input_output_aliases is 'state' with 1; legal"),
    ],
)
def test_aliases_that_are_none_are_refused(aliases, match):
    with pytest.raises(BadInput, match=match) as refused:
        trace(nn.Linear(4, 3), X, input_output_aliases=aliases)
    assert refused.value.line.file == __file__


def test_other_arguments_have_names():
    with pytest.raises(BadInput, match="3 arguments by position"):
        trace(nn.Linear(4, 3), X, {})
    with pytest.raises(BadInput, match="states"):
        trace(nn.Linear(4, 3), X, states=[X])


@pytest.mark.slow
def test_a_stored_program_is_json_of_the_estimate_too():
    program = compile_function(nn.Linear(4, 3), X, {}).program
    text = program.to_bytes().partition(b"\n{")[2]
    assert json.loads(b"{" + text)["estimate"]["target"] == "trn2"
    assert StoredProgram.from_bytes(program.to_bytes()) == program

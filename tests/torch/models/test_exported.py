import sys
from importlib import import_module

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import forked
from torch import nn
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.compiler import Flags
from trnsim.compiler.ncc import limits
from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.errors import BadInput, OutOfMemory
from trnsim.torch.models import exported
from trnsim.torch.models import subjects as answers

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")


def compile_program(path, target, flags=None):
    subject = answers.of_export(path)
    return answers.report_model(subject, target, flags or Flags())


def saved(model, x, path):
    torch.export.save(torch.export.export(model.eval(), (x,)), path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8), nn.Softmax(-1))
    return saved(model, torch.randn(16, 32), tmp_path_factory.mktemp("export") / "model.pt2")


@pytest.mark.slow_cases("trn2", "trn3")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_program_has_its_time_and_its_memory(program, target):
    found = compile_program(program, target)
    assert found.program.device_time_s > 0
    weights = 4 * (32 * 64 + 64 + 64 * 8 + 8)
    assert found.plan.input_bytes == weights + 4 * 16 * 32
    assert len({kernel.name for kernel in found.program.costs()}) == len(found.program.costs())
    flop = sum(kernel.flop for kernel in found.program.costs())
    assert flop == pytest.approx(2 * 16 * (32 * 64 + 64 * 8))


def test_the_text_says_where_time_and_memory_go(program):
    text = compile_program(program, "trn2").long_text()
    assert text.startswith("model.pt2 on trn2 (LNC=2)\n")
    assert "dot_general" in text
    assert "HBM at the peak" in text
    assert "wherever they lie" in text
    assert "missing     nothing" in text


@pytest.mark.filterwarnings("ignore:The tensor attributes")  # PyTorch.s own, of its LSTM
def test_an_lstm_in_a_file_is_lowered(tmp_path):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 8, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0][:, -1]

    text = compile_program(saved(Last(), torch.zeros(2, 3, 4), tmp_path / "m.pt2"), "trn2")
    assert "missing     nothing" in text.long_text()


def test_what_has_no_lowering_is_named(tmp_path):
    class Values(nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x * 2)

    path = saved(Values(), torch.randn(4, 4), tmp_path / "values.pt2")
    text = compile_program(path, "trn2").text(400)
    assert "operator has no time, so the total is short" in text
    assert "aten::_linalg_svd" in text


class Largest(nn.Module):
    def forward(self, x):
        return torch.topk(x, 2).values


def test_what_aws_compiler_refuses_is_said_with_the_line(tmp_path):
    path = saved(Largest(), torch.arange(8), tmp_path / "largest.pt2")
    (note,) = compile_program(path, "trn2").compiler_notes
    line = Largest.forward.__code__.co_firstlineno + 1
    assert note.startswith("NCC_EVRF013: aten::topk on int64[8]; TopK takes no integers")
    assert note.endswith(f"fix: cast the tensor to float32 first (at {__file__}:{line})")


def test_what_aws_compiler_refuses_is_an_error_under_the_policy_chip(tmp_path):
    path = saved(Largest(), torch.arange(8), tmp_path / "largest.pt2")
    torch.neuron.set_policy("chip")
    try:
        with pytest.raises(CompilerRefusal, match="NCC_EVRF013"):
            compile_program(path, "trn2")
    finally:
        torch.neuron.set_policy("host")


@pytest.mark.parametrize(
    ("function", "x", "sizes", "wanted"),
    [
        (torch.nonzero, torch.ones(4), None, r"aten::nonzero on float32\[4\] gives int64\[\?, 1\]"),
        (torch.exp, torch.ones(4, 3), {0: torch.export.Dim("rows")}, r"an input float32\[\?, 3\]"),
    ],
)
def test_a_program_without_sizes_is_refused_under_either_policy(
    function, x, sizes, wanted, tmp_path
):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    path = tmp_path / "dynamic.pt2"
    torch.export.save(torch.export.export(Model(), (x,), dynamic_shapes=(sizes,)), path)
    with pytest.raises(CompilerRefusal, match=f"NCC_EMOD025: {wanted}"):
        compile_program(path, "trn2")


@pytest.mark.slow
def test_a_cast_changes_kernels_and_time(program):
    plain = compile_program(program, "trn2")
    cast = compile_program(program, "trn2", Flags.parse("--auto-cast=all --no-cache"))
    assert cast.program.device_time_s != plain.program.device_time_s
    assert cast.plan.input_bytes == plain.plan.input_bytes
    assert any("convert" in kernel.name for kernel in cast.program.costs())
    assert [one.split()[0] for one in cast.compiler_notes] == ["--no-cache"]


@pytest.mark.slow
def test_a_program_has_a_limited_number_of_instructions(program, monkeypatch):
    number = sum(kernel.instructions for kernel in compile_program(program, "trn2").program.costs())
    monkeypatch.setattr(limits, "INSTRUCTIONS_MAX", number)
    assert not compile_program(program, "trn2").compiler_notes
    monkeypatch.setattr(limits, "INSTRUCTIONS_MAX", number - 1)
    (note,) = compile_program(program, "trn2").compiler_notes
    assert note.startswith(f"NCC_EVRF007: {number:,} instructions, of {number - 1:,} at most")


def test_logical_cores_that_a_chip_lacks_are_refused(program):
    with pytest.raises(CompilerRefusal, match="NCC_EARG001: --logical-nc-config=2 on trn1"):
        compile_program(program, "trn1", Flags(logical_nc_config=2))


def test_a_program_that_does_not_fit_is_refused_with_what_it_holds(tmp_path):
    with torch.device("meta"):
        model = nn.Linear(100_000, 100_000, bias=False)
    path = saved(model, torch.empty(1, 100_000, device="meta"), tmp_path / "large.pt2")
    with pytest.raises(
        OutOfMemory, match=r"NCC_EVRF009: large.pt2 needs 37.3 GiB of HBM at its peak.* has 24 GiB"
    ) as found:
        compile_program(path, "trn2")
    assert "tensor<100000x100000xfloat32>  input" in str(found.value)


@pytest.mark.parametrize("content", [None, b"text", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_program_is_refused(tmp_path, content):
    path = tmp_path / "wrong.pt2"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=r"cannot read|no exported program") as caught:
        compile_program(path, "trn2")
    assert caught.value.fix == exported._EXPORT_FIX


DEFINITION = """
import torch.utils._pytree as pytree

class Answer:
    def __init__(self, x):
        self.x = x

pytree.register_pytree_node(
    Answer, lambda one: ([one.x], None), lambda parts, _: Answer(*parts),
    serialized_type_name="answers.Answer",
)
"""


@pytest.mark.slow
def test_classes_that_a_program_returns_are_imported_by_who_asks_alone(tmp_path, monkeypatch):
    (tmp_path / "answers.py").write_text(DEFINITION)
    path = tmp_path / "model.pt2"
    make = (
        "import torch, answers\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return answers.Answer(x + 1)\n"
        f"torch.export.save(torch.export.export(Model(), (torch.ones(3),)), {str(path)!r})\n"
    )
    forked.python(make, cwd=tmp_path, check=True)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        BadInput, match=r"returns an object of answers\.Answer, which is not"
    ) as told:
        compile_program(path, "trn2")
    assert "if you trust that module: trnsim compile --import answers" in told.value.fix
    assert "answers" not in sys.modules
    import_module("answers")
    assert exported.exported_graph(path).operators == ("aten::add.Tensor",)


OPERATOR = """
import torch

@torch.library.custom_op("answers::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

twice.register_fake(torch.empty_like)
"""


@pytest.mark.slow
def test_a_module_that_registers_operators_is_imported_where_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "own_operators.py").write_text(OPERATOR)
    path = tmp_path / "model.pt2"
    make = (
        "import torch, own_operators\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.ops.answers.twice(x) + 1\n"
        f"torch.export.save(torch.export.export(Model(), (torch.ones(3),)), {str(path)!r})\n"
    )
    forked.python(make, cwd=tmp_path, check=True)
    run = CliRunner().invoke(app, ["compile", str(path)])
    assert run.exception.reason == (
        f"{path} calls torch.ops.answers.twice.default, which nothing here registers"
    )
    assert run.exception.fix == "name the module that does: trnsim compile --import MODULE ..."
    monkeypatch.syspath_prepend(tmp_path)
    run = CliRunner().invoke(app, ["compile", str(path), "--import", "own_operators"])
    assert "answers::twice: there is no lowering of it" in " ".join(run.output.split())
    run = CliRunner().invoke(app, ["compile", str(path), "--import", "nowhere"])
    assert "--import nowhere" in run.exception.reason


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize("has_gradient", [True, False])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_encoder_layer_from_a_file_runs_on_the_device(
    is_trained, has_gradient, is_compiled, tmp_path
):
    torch.manual_seed(0)
    torch._dynamo.reset()
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True)
    x = torch.randn(3, 5, 16)
    padded = torch.tensor([[0] * 5, [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]).bool()
    with torch.set_grad_enabled(has_gradient):
        wanted = layer(x, src_key_padding_mask=padded)
        program = torch.export.export(
            layer.train(is_trained), (x,), {"src_key_padding_mask": padded}
        )
        torch.export.save(program, tmp_path / "layer.pt2")
        loaded = torch.export.load(tmp_path / "layer.pt2").module().to("neuron")
        run = torch.compile(loaded, backend="neuron") if is_compiled else loaded
        found = run(x.to("neuron"), src_key_padding_mask=padded.to("neuron"))
    seen = ~padded
    torch.testing.assert_close(found.cpu()[seen], wanted[seen], rtol=1e-5, atol=1e-5)
    if has_gradient:
        wanted[seen].square().sum().backward()
        found[seen.to("neuron")].square().sum().backward()
        ours = dict(loaded.named_parameters())
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(ours[name].grad.cpu(), parameter.grad, rtol=1e-4, atol=1e-5)
    assert "missing     nothing" in compile_program(tmp_path / "layer.pt2", "trn1").long_text()

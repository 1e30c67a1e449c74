# nki: 0.6
import io
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki.isa as nisa
import nki.language as nl

from trnsim.device.call_log import recording
from trnsim.device.step_time import step_time
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.kernels import KernelRefused, nki_jit
from trnsim.xla.neuronx.trace import compile_function, trace

X = torch.rand(8, 4)

pytestmark = pytest.mark.slow  # it compiles programs


@nki_jit
def add(a, b):
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.add(nl.load(a), nl.load(b)))
    return result


def test_a_kernel_runs_on_the_device_and_is_timed():
    with recording() as log:
        result = add(X.to("neuron"), X.to("neuron"))
    torch.testing.assert_close(result.cpu(), 2 * X)
    assert step_time(log, "trn2").device_time_s > 0


def test_a_kernel_is_a_part_of_a_traced_program():
    compiled = compile_function(lambda x: add(x, x) * 3, X, {})
    alone = compile_function(lambda x: x * 3, X, {})
    assert compiled.report.time_s > alone.report.time_s
    torch.testing.assert_close(compiled.script_module()(X), 6 * X)


@nki_jit
def attend(q, k, v):
    """Attention of 128 queries over 128 keys, with a mask of later keys."""
    out = nl.ndarray(q.shape, q.dtype, buffer=nl.shared_hbm)
    scores, weighted = (nl.ndarray((128, n), nl.float32, buffer=nl.psum) for n in (128, 64))
    probabilities = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
    flipped = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(scores, nl.load_transpose2d(q), nl.load_transpose2d(k))
    nisa.affine_select(probabilities, [[-1, 128]], 1, nl.copy(scores), -9984.0, nl.greater_equal)
    nisa.activation(probabilities, nl.exp, probabilities, scale=0.125)
    total = nl.sum(probabilities, axis=1, keepdims=True)
    nisa.tensor_scalar(probabilities, probabilities, nl.multiply, nl.reciprocal(total))
    nisa.nc_transpose(flipped, probabilities)
    nisa.nc_matmul(weighted, nl.copy(flipped), nl.load(v))
    nl.store(out, nl.copy(weighted))
    return out


class Attention(torch.nn.Module):
    """A layer around the kernel, which calls it twice."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        once = attend(self.q(x), self.k(x), self.v(x))
        return x + attend(self.q(once), self.k(once), self.v(once))


IN_A_NEW_PROCESS = """
import sys
import torch
from trnsim.device.call_log import recording
from trnsim.device.step_time import step_time

module = torch.jit.load(sys.argv[1])
example, result = map(torch.load, sys.argv[2:])
with recording() as log:
    assert torch.equal(module(example), result)
print(repr(step_time(log, "trn2").device_time_s))
"""


def run_in_a_new_process(folder, module, example, result):
    """The device time of a saved module that gives an equal result without the model's code."""
    paths = [str(folder / name) for name in ("module.pt", "example.pt", "result.pt")]
    torch.jit.save(module, paths[0])
    torch.save(example, paths[1])
    torch.save(result, paths[2])
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_A_NEW_PROCESS, *paths],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return float(process.stdout)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_saved_module_has_its_kernels_and_their_time(tmp_path):
    example = torch.randn(128, 64)
    module = trace(Attention(), example)
    with recording() as log:
        result = module(example)
    time_s = step_time(log, "trn2").device_time_s
    assert run_in_a_new_process(tmp_path, module, example, result) == time_s


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_module_that_was_loaded_is_saved_again(tmp_path):
    module = trace(lambda x: add(x, x) * 3, X)
    for _ in range(2):
        torch.jit.save(module, tmp_path / "module.pt")
        module = torch.jit.load(tmp_path / "module.pt")
    torch.testing.assert_close(module(X), 6 * X)
    frozen = torch.jit.freeze(module)
    torch.testing.assert_close(frozen(X), 6 * X)


def test_the_program_in_a_folder_has_its_kernels(tmp_path):
    trace(lambda x: add(x, x), X, compiler_workdir=tmp_path)
    (kernel,) = StoredProgram.from_bytes((tmp_path / "graph.neff").read_bytes()).kernels
    assert kernel.title == "add"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_kernel_on_two_cores_is_saved(tmp_path):
    example = torch.rand(128, 64)
    module = trace(lambda x: halves[2](x) + 1, example)
    run_in_a_new_process(tmp_path, module, example, module(example))


@nki_jit
def halves(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    own = nl.ds(nl.program_id(0) * 64, 64)
    nl.store(result[own], nl.multiply(nl.load(x[own]), 2.0))
    return result


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_kernel_that_cannot_be_saved_is_named_with_its_line(monkeypatch):
    traced = trace(lambda x: add(x, x), X.bfloat16())
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    with pytest.raises(RuntimeError, match="calls the NKI kernel add is not saved") as refused:
        torch.jit.save(traced, io.BytesIO())
    assert "test_kernels.py:" in str(refused.value)


def test_every_spelling_gives_a_kernel():
    def kernel(a):
        return a

    assert nki_jit(add) is add
    assert type(nki_jit()(kernel)) is type(nki_jit(kernel, mode="torchxla")) is type(add)


def test_a_kernel_of_the_first_generation_is_refused_by_its_name():
    def flash_fwd():
        pass

    flash_fwd.__module__ = "neuronxcc.nki.kernels.attention"
    with pytest.raises(
        KernelRefused, match=r"nki.kernels.attention.flash_fwd, a kernel of NKI 0.1"
    ):
        nki_jit()(flash_fwd)

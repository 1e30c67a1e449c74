"""D7, newer half: autocomp's trn-tutorial-nki2 kernels against the references they come with.

The harness file's own `test_nki` makes the inputs, runs its reference kernel and the solution, and
compares with its own tolerance. What is not Python's is supplied from outside: `torch_xla`, whose
device here is the CPU.
"""

import sys
import types

import pytest

from trnsim.errors import IllegalInstruction

HARNESS = "autocomp/harnesses/trn-tutorial-nki2"
SOLUTIONS = "autocomp/sols/trn-tutorial-nki2"
OLD_KEYWORD = pytest.mark.xfail(
    raises=IllegalInstruction,
    strict=True,
    reason="nisa.tensor_copy(dtype=...), which NKI 0.2 removed, is not taken",
)
CASES = [
    ("0_rmsnorm", "ref"),
    ("1_layernorm", "nki_layernorm_kernel_v2"),
    pytest.param("2_gemm", "ref", marks=OLD_KEYWORD),
    ("3_mamba", "mamba_v3"),
]


@pytest.fixture(autouse=True)
def _torch_xla(monkeypatch):
    """An XLA device that is the CPU, and the target that the kernels were written for."""
    torch = pytest.importorskip("torch")
    xla_model = types.ModuleType("torch_xla.core.xla_model")
    xla_model.xla_device = lambda: torch.device("cpu")
    core = types.ModuleType("torch_xla.core")
    core.xla_model = xla_model
    monkeypatch.setitem(sys.modules, "torch_xla", types.ModuleType("torch_xla"))
    monkeypatch.setitem(sys.modules, "torch_xla.core", core)
    monkeypatch.setitem(sys.modules, "torch_xla.core.xla_model", xla_model)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


@pytest.fixture
def load(upstream, load_upstream):
    """The harness of a case, and its solution, which uses the harness's imports."""

    def load_both(name):
        harness = load_upstream(f"{HARNESS}/{name}_test.py")
        file = upstream / SOLUTIONS / f"{name}_ref.py"
        scope = {**vars(harness)}
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)  # noqa: S102  theirs
        return harness, scope["solution"]

    return load_both


@pytest.mark.parametrize(("name", "reference"), CASES)
def test_the_solution_agrees_with_the_reference_kernel(load, name, reference):
    harness, solution = load(name)
    assert harness.test_nki(getattr(harness, reference), solution)


def test_rmsnorm_is_pytorchs(load):
    import torch  # noqa: PLC0415  the suite needs it, our tests may lack it

    _, solution = load("0_rmsnorm")
    x, weight = torch.rand(512, 4096), torch.rand(4096)
    expected = x / x.square().mean(-1, keepdim=True).sqrt() * weight
    torch.testing.assert_close(solution(x, weight), expected, atol=1e-4, rtol=1e-2)


def test_layernorm_is_pytorchs(load):
    import torch  # noqa: PLC0415  as above

    harness, solution = load("1_layernorm")
    x, epsilon, weight, bias = harness.construct_args(512, 8192)
    expected = torch.nn.functional.layer_norm(x, (8192,), weight, bias, epsilon)
    torch.testing.assert_close(solution(x, epsilon, weight, bias), expected, atol=1e-3, rtol=5e-3)


@OLD_KEYWORD
def test_gemm_is_pytorchs(load):
    import torch  # noqa: PLC0415  as above

    _, solution = load("2_gemm")
    left, right = (torch.randn(512, 512).mul(512**-0.5).bfloat16() for _ in range(2))
    expected = left.float().T @ right.float()
    torch.testing.assert_close(solution(left, right).float(), expected, atol=1e-2, rtol=1e-3)

"""V2 and V7: kernels that were published for NKI 0.2 and 0.4, against their references.

V2 is attention_cte of nki-library 2.27, which has a reference in PyTorch and no tests; shapes and
options here are drawn over its documented ones. V7 are the kernels of NKIPy's tests and of its
example, whose harness compiles for a chip: they are taken out of it and called. Their references
and tolerances are those of NKIPy.
"""

import ast
import importlib.util
import sys
import types

import nki
import numpy as np
import pytest

import trnsim
from trnsim.behaviours.chosen import asked_version
from trnsim.errors import IllegalInstruction

V2 = "nki-library-2.27/src/nkilib_standalone"
TESTS = "nkipy/tests/unit/test_nki.py"
EXAMPLE = "nkipy/examples/playground/simple_nki_kernel.py"
BEFORE = """
import nki as nki_beta2
import nki as nki_beta3
import nki.isa as nisa_beta2
import nki.language as nl_beta2
import nki.language as nl_beta3
"""
CASES = {
    "causal": {},
    "full": {"causal_mask": False},
    "grouped": {"heads": 2},
    "sliding": {"sliding_window": 64},
    "sink": {"has_sink": True},
    "transposed": {"tp_q": False, "tp_k": True, "tp_out": True},
    "cached": {"cache_softmax": True},
    "prefix": {"prior": 100},
    "context": {"cp_offset": 128},
    "long": {"seqlen": 1024},
}
"""Variants of the entry point, from its docstring."""
TOLERANCE = 2e-2
"""The relative one of nki-library 2.29 for this kernel, which computes in bfloat16."""
TOO_LONG_A_BIAS = pytest.mark.xfail(
    raises=IllegalInstruction,
    strict=True,
    reason="72 rows with a bias of 128, where the documents want equal numbers of partitions",
)


@pytest.fixture
def attention(upstream, monkeypatch):
    """The kernel of attention and its reference."""
    pytest.importorskip("torch")
    folder = upstream / V2
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: nki-library at 62cb67d")
    monkeypatch.syspath_prepend(folder)
    from nkilib.core.attention import attention_cte, attention_cte_torch  # noqa: PLC0415

    return attention_cte.attention_cte, attention_cte_torch.attention_cte_torch_ref


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", [*CASES, pytest.param("uneven", marks=TOO_LONG_A_BIAS)])
def test_attention_agrees_with_its_reference(attention, case, dtype, cores):
    import torch  # noqa: PLC0415

    kernel, reference = attention
    options = {**CASES.get(case, {"seqlen": 200})}
    arguments = arguments_of(torch, options, getattr(torch, dtype))
    numbers = {name: value for name, value in arguments.items() if value is not None}
    run = trnsim.run(nki.jit(kernel)[cores], kernel_kwargs=numbers, races="warn")
    results = run.outputs
    expected = reference(**arguments)
    results = results if isinstance(results, tuple | list) else (results,)
    expected = expected if isinstance(expected, tuple | list) else (expected,)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(
            result.float().numpy(), wanted.float().numpy(), rtol=TOLERANCE, atol=TOLERANCE / 4
        )


def arguments_of(torch, options, dtype):
    """Random arguments of a case, with the shapes of the docstring."""
    torch.manual_seed(0)
    heads, seqlen, depth = options.pop("heads", 1), options.pop("seqlen", 256), 64
    prior, offset = options.pop("prior", None), options.pop("cp_offset", None)
    has_sink = options.pop("has_sink", False)

    def drawn(*shape, is_swapped=False):
        tensor = (0.5 * torch.randn(*shape)).bfloat16().to(dtype)  # which the kernel rounds to
        return tensor.transpose(1, 2).contiguous() if is_swapped else tensor

    batch = 2 * heads
    is_free = not (prior or offset or options.get("sliding_window"))
    arguments = {
        "q": drawn(batch, seqlen, depth, is_swapped=not options.get("tp_q", True)),
        "k": drawn(2, depth, seqlen, is_swapped=options.get("tp_k", False)),
        "v": drawn(2, seqlen, depth),
        "scale": depth**-0.5 if is_free else 1.0,
        "sink": drawn(batch, 1) if has_sink else None,
        **options,
    }
    if prior:
        arguments |= {
            "k_prior": drawn(2, depth, 128),
            "v_prior": drawn(2, 128, depth),
            "prior_used_len": torch.tensor([prior], dtype=torch.int32),
        }
    if offset:
        arguments |= {
            "cp_offset": torch.tensor([[offset]], dtype=torch.int32),
            "global_cp_deg": 2,
        }
    return arguments


def kernels_of_tests(path):
    """(test, the source of its kernel) for each kernel of NKIPy's tests."""
    text = path.read_text(encoding="utf-8")
    for test in ast.parse(text).body:
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        for node in test.body:
            source = ast.unparse(node)
            is_kernel = "nisa_beta2.dma_copy" in source or "nl_beta3.load" in source
            if isinstance(node, ast.FunctionDef) and is_kernel:
                yield test.name, node.name, source


@pytest.fixture
def load_text(tmp_path, monkeypatch):
    """A function that makes a module of a text."""

    def load(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


TESTS_OF_NKIPY = (
    "test_nki_simple_beta_2",
    "test_nki_direct_jit_beta2_called_twice_different_shapes",
    "test_nki_direct_jit_beta2_kwargs_operand_order",
    "test_nki_direct_jit_beta3",
    "test_nki_direct_jit_beta3_called_twice_different_shapes",
    "test_nki_direct_jit_beta3_kwargs_operand_order",
)


@pytest.mark.parametrize("test", TESTS_OF_NKIPY)
def test_the_kernels_of_nkipys_tests_agree_with_numpy(upstream, load_text, test):
    path = upstream / TESTS
    if not path.is_file():
        pytest.skip(f"{path} is missing: nkipy at b91c980")
    kernels = [row for row in kernels_of_tests(path) if row[0] == test]
    assert kernels
    for _, name, source in kernels:
        kernel = nki.jit(getattr(load_text(test, BEFORE + source), name))
        for shape in ((128, 512), (64, 256)):
            a, b = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
            result = kernel(a, b)
            wanted = a - b if "subtract" in source else a + b
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture
def example(upstream, load_upstream, monkeypatch):
    """The kernel of NKIPy's example; what it imports beside is taken away."""
    if not (upstream / EXAMPLE).is_file():
        pytest.skip(f"{upstream / EXAMPLE} is missing: nkipy at b91c980")
    core, runtime = types.ModuleType("nkipy.core"), types.ModuleType("nkipy.runtime")
    core.nki_op = runtime.DeviceKernel = runtime.DeviceTensor = None
    for name, module in (("nkipy", types.ModuleType("nkipy")), ("nkipy.core", core)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "nkipy.runtime", runtime)
    return load_upstream(EXAMPLE).nki_tensor_add


def test_the_kernel_of_nkipys_example_agrees_with_numpy(example):
    a, b = np.random.default_rng(42).random((2, 128, 512), dtype=np.float32)
    pin = {} if asked_version() else {"nki": "0.4"}
    sums = trnsim.run(example, a, b, **pin).outputs
    np.testing.assert_allclose(sums, a + b, rtol=1e-5, atol=1e-5)


def test_nkipys_index_by_a_range_ends_with_nki_06(example):
    a, b = np.random.default_rng(42).random((2, 128, 512), dtype=np.float32)
    sums = trnsim.run(example, a, b, nki="0.6").outputs
    np.testing.assert_allclose(sums, a + b, rtol=1e-5, atol=1e-5)
    with pytest.raises(
        IllegalInstruction, match=r"nl\.affine_range between brackets under NKI 0\.7"
    ):
        trnsim.run(example, a, b, nki="0.7")

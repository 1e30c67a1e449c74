"""Python files as syntax trees: what stands in them, and that nothing of them runs."""

import pytest

from trnsim.decide.scan.programs import read_program


def read(source):
    return read_program("a.py", source.encode() if isinstance(source, str) else source)


def found(source):
    """Line, kind and name of each place."""
    return sorted((place.line, place.kind, place.what) for place in read(source).findings)


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("", []),
        ("import torch\nx = torch.zeros(3)\n", []),
        ("import flash_attn\n", [(1, "package", "flash_attn")]),
        (
            "from flash_attn.layers import rotary as r\nr.apply()\n",
            [(1, "package", "flash_attn")],
        ),
        ("def f():\n    import bitsandbytes as bnb\n", [(2, "package", "bitsandbytes")]),
        (
            "try:\n    import xformers.ops\nexcept ImportError:\n    pass\n",
            [(2, "package", "xformers")],
        ),
        ("from .flash_attn import mine\nfrom . import apex\n", []),
        ("import numpy as flash_attn\n", []),
        (
            "import cupy as cp\nk = cp.RawKernel('', 'f')\n",
            [(1, "cuda", "cupy"), (2, "cuda", "cupy.RawKernel")],
        ),
        (
            "from numba import cuda, njit\n@cuda.jit\ndef f(): ...\n",
            [(1, "cuda", "numba.cuda"), (2, "cuda", "numba.cuda.jit")],
        ),
        ("import numba\n@numba.njit\ndef f(): ...\n", []),
        ("import triton\n@triton.jit\ndef f(): ...\n", [(2, "triton", "triton.jit")]),
        ("from triton import jit as j\n@j\ndef f(): ...\n", [(2, "triton", "triton.jit")]),
        (
            "import jax.experimental.pallas as pl\npl.pallas_call(f)\n",
            [(2, "triton", "jax.experimental.pallas")],
        ),
        (
            "from torch.utils import cpp_extension\ncpp_extension.load_inline('f')\n",
            [(2, "cuda", "torch.utils.cpp_extension.load_inline")],
        ),
        (
            "from torch.utils.cpp_extension import CUDAExtension as E\nsetup([\n  E('f'),\n])\n",
            [(3, "cuda", "torch.utils.cpp_extension.CUDAExtension")],
        ),
        ("import torch\nx.cuda()\n", [(2, "device", ".cuda()")]),
        ("x.cuda()\n", []),
        ("import torch as t\nt.cuda.synchronize()\n", [(2, "device", "torch.cuda.synchronize")]),
        ("from torch import cuda\ncuda.empty_cache()\n", [(2, "device", "torch.cuda.empty_cache")]),
        (
            "import torch\nx.to('cuda:1')\nx.to(device='cuda')\n",
            [(2, "device", "'cuda:1'"), (3, "device", "'cuda'")],
        ),
        ("import torch\nx.to('cudax')\ny = 'cuda'\n", []),
        (
            "import torch.distributed as d\nd.init_process_group('nccl')\n",
            [(2, "device", "'nccl'")],
        ),
        (
            "import torch\ntorch.backends.cudnn.benchmark = True\n",
            [(2, "device", "torch.backends.cudnn.benchmark")],
        ),
        ("import torch\ntorch.linalg.svd(x)\n", [(2, "operator", "torch.linalg.svd")]),
        ("import torch\nx.masked_select(m)\n", [(2, "operator", "torch.masked_select")]),
        ("import numpy as np\nx.nonzero()\nnp.linalg.svd(x)\n", []),
        ("f(torch.svd(x))\nimport torch\n", [(1, "operator", "torch.svd")]),
    ],
)
def test_what_stands_in_the_way_is_found_where_it_stands(source, places):
    assert found(source) == places


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("def f(:\n", 1, "no Python of this version: invalid syntax"),
        ("x = 1\nprint 'old'\n", 2, "no Python of this version: Missing parentheses"),
        (b"\x00", 1, "no Python"),
        (b"x = '\xff'\n", 1, "no Python of this version: (unicode error)"),
        (b"# coding: nothing\n", 1, "no Python of this version: "),
        ("x = " + "(" * 5000, 1, "no Python of this version: too many nested parentheses"),
        ("x = " + "-" * 100_000 + "1", 1, "no Python"),
    ],
)
def test_what_is_no_python_is_a_finding(source, line, what):
    (place,) = read(source).findings
    assert (place.kind, place.line) == ("unreadable", line)
    assert place.what.startswith(what)


def test_calls_are_counted_by_what_the_compiler_does_with_them():
    program = read(
        "import torch\nimport torch.nn.functional as F\n"
        "F.relu(torch.matmul(a, b))\ntorch.fft.rfft(x)\ntorch.other(x)\ntorch.no_grad()\n"
    )
    assert (program.lowered, program.unlowered) == (2, 1)
    assert program.unknown == {"torch.other"}
    assert program.frameworks == {"pytorch"}


def test_advice_names_the_operator_that_lacks_a_lowering():
    (place,) = read("import torch\ntorch.fft.rfft(x)\n").findings
    assert place.effort == "M"
    assert place.advice.startswith("the compiler has no lowering for _fft_r2c: ")


def test_nothing_of_a_program_runs(tmp_path):
    mark = tmp_path / "mark"
    read(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nraise SystemExit\n")
    assert not mark.exists()


def test_warnings_about_a_program_are_not_ours():
    """A string such as "\\d" warns when it is parsed, which is an error with python -W error."""
    assert found('x = "\\d"\nimport flash_attn\n') == [(2, "package", "flash_attn")]

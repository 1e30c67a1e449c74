"""The public kernels behind the calibration rows, at the rows' shapes, from local clones.

Nothing of the clones is kept: their builders of inputs and their kernels are imported and called.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).parent
ATTENTION = "test.integration.nkilib.core.attention.test_attention_cte"
MLP = "test.integration.nkilib.core.mlp.test_mlp_tkg"


def _word(text, names):
    """A shape as the table has it, such as "16 * 1024" or "nl.bfloat16", as a value."""
    if not isinstance(text, str):
        return text
    return eval(text, {"__builtins__": {}}, names)  # noqa: S307  the table is our own file


@cache
def _nki_library(clone):
    """The parts of nki-library's tests that make inputs, importable."""
    for folder in ("src", "src/nkilib_src", "."):
        sys.path.insert(0, str(clone / folder))
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "upstream"))
    import_module("nki_library_plugin")  # supplies the modules that the clone lacks
    nl = import_module("nki.language")
    attention, mlp = import_module(ATTENTION), import_module(MLP)
    names = {
        "np": SimpleNamespace(float16=np.float16, float32=np.float32),
        "nl": nl,
        **{n: getattr(mlp, n) for n in ("QuantizationType", "NormType", "ActFnType")},
    }
    return attention, mlp, names


def attention_cte(row, clone):
    """Prefill attention of nkilib attention: (kernel, LNC, keyword arguments)."""
    tests, _, names = _nki_library(clone / "nki-library")
    shape = {name: _word(text, names) for name, text in row["shapes"].items()}
    seqlen_kv = shape.get("seqlen_kv", shape.get("kv_seqlen"))
    seqlen_q = shape.get("seqlen_q", shape.get("q_seqlen_partial"))
    prior = shape.get("prior_len", shape.get("kv_seqlen_prior"))
    arguments, _ = tests.build_attention_cte_input(
        bs=shape["bs"],
        bs_kv=shape.get("bs_kv", shape["bs"]),
        d=shape["d"],
        dtype=shape["dtype"],
        seqlen_kv=seqlen_kv,
        seqlen_q=seqlen_q,
        is_prefix_caching=prior is not None,
        seqlen_kv_prior=prior,
        prior_used_len=shape.get("prior_used_len", shape.get("kv_prior_used_len")),
        tp_q=shape["tp_q"],
        tp_k=shape.get("tp_k", False),
        tp_out=shape["tp_out"],
        sink=shape.get("sink", False),
        softmax_scale=shape["softmax_scale"],
        causal_mask=shape.get("causal_mask", True),
        sliding_window=shape.get("sliding_window", 0),
        use_cp="cp_degree" in shape,
        cp_strided_q_slicing=False,
        cp_degree=shape.get("cp_degree"),
        cp_rank_id=shape.get("cp_rank_id"),
        cache_softmax=False,
    )
    return tests.attention_cte, lnc(row), arguments


def mlp_tkg(row, clone):
    """The token-generation MLP of nkilib: (kernel, LNC, keyword arguments)."""
    _, tests, names = _nki_library(clone / "nki-library")
    shape = {name: _word(text, names) for name, text in row["shapes"].items()}
    cores, is_optimized = lnc(row), shape["use_tkg_down_proj_optimized_layout"]
    generator = tests.gaussian_tensor_generator
    if shape["quant_dtype"] is not None:
        generator = tests.random_lhs_and_random_bound_weight_tensor_generator
    layout = {
        "modifier_fn": tests.modify_down_proj_lhs_rhs_swap_unit_stride_layout,
        "lnc": cores,
    }
    drawn = (0, 241) if is_optimized or shape["quant_dtype"] is not None else ()
    same = ("batch", "seqlen", "hidden", "intermediate", "dtype", "quant_dtype", "fused_add")
    same += ("norm_type", "store_add", "act_fn_type", "gate_bias", "up_bias", "down_bias")
    same += ("norm_bias", "use_tkg_gate_up_proj_column_tiling", "use_tkg_down_proj_column_tiling")
    arguments = tests.build_fused_norm_mlp(
        **{name: shape[name] for name in same},
        use_tkg_down_proj_optimized_layout=is_optimized,
        quantization_type=shape["quant_type"],
        lnc_degree=cores,
        skip_gate=shape["skip_gate_proj"],
        tensor_generator=generator(*drawn, **(layout if is_optimized else {})),
    )
    return tests.mlp, cores, arguments


def matmul(row, clone):
    """A matmul of the tutorial: (kernel, LNC, keyword arguments)."""
    import ml_dtypes  # noqa: PLC0415  only here

    folder = clone / "aws-neuron-sdk/nki/examples/matrix_multiplication"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = import_module("matrix_multiplication_nki_kernels")
    name = row["id"].removeprefix("mm-trn1-") + "_"
    m, k, n = (row["shapes"][axis] for axis in "MKN")
    arrays = {
        "lhsT": np.empty((k, m), ml_dtypes.bfloat16),
        "rhs": np.empty((k, n), ml_dtypes.bfloat16),
    }
    return getattr(module, name), 1, arrays


def lnc(row):
    """The logical NeuronCore's size that the row states, or that its magnitude says."""
    return 2 if row["hardware"].endswith("LNC=2") else 1

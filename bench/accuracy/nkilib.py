"""The kernels of nki-library behind the rows, at the rows' shapes, from a local clone.

Nothing of the clone is kept: its builders of inputs and its kernels are imported and called.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from launches import Launch

HERE = Path(__file__).parent
CORE_TESTS = "test.integration.nkilib.core"
GENERATORS = "test.integration.nkilib.utils.tensor_generators"
TYPES = "nkilib_src.nkilib.core.utils.common_types"


def _shape(row, clone):
    """A row's shape as values: the table has words such as "16 * 1024" or "nl.bfloat16"."""
    names = _names(clone)
    return {
        name: eval(text, {"__builtins__": {}}, names) if isinstance(text, str) else text  # noqa: S307  the table is our own file
        for name, text in row["shapes"].items()
    }


@cache
def _names(clone):
    """What the words of the table refer to."""
    types, generators = _module(clone, TYPES), _module(clone, GENERATORS)
    enums = ("QuantizationType", "NormType", "ActFnType", "QKVOutputLayout")
    drawn = ("gaussian_tensor_generator", "duplicate_row_rmsnorm_inp_generator")
    return {
        "np": SimpleNamespace(float16=np.float16, float32=np.float32),
        "nl": import_module("nki.language"),
        "ceilalign": lambda n, multiple: math.ceil(n / multiple) * multiple,
        **{name: getattr(types, name) for name in enums},
        **{name: getattr(generators, name) for name in drawn},
    }


@cache
def _module(clone, name):
    """A module of nki-library or of its tests."""
    for folder in ("src", "src/nkilib_src", "."):
        if str(clone / folder) not in sys.path:
            sys.path.insert(0, str(clone / folder))
    plugin = str(HERE.parents[1] / "tests" / "upstream")
    if plugin not in sys.path:
        sys.path.insert(0, plugin)
    import_module("nki_library_plugin")  # supplies the modules that the clone lacks
    return import_module(name)


def attention_cte(row, folder):
    """Prefill attention."""
    clone = folder / "nki-library"
    tests = _module(clone, f"{CORE_TESTS}.attention.test_attention_cte")
    shape = _shape(row, clone)
    prior = shape.get("prior_len", shape.get("kv_seqlen_prior"))
    arguments, _ = tests.build_attention_cte_input(
        bs=shape["bs"],
        bs_kv=shape.get("bs_kv", shape["bs"]),
        d=shape["d"],
        dtype=shape["dtype"],
        seqlen_kv=shape.get("seqlen_kv", shape.get("kv_seqlen")),
        seqlen_q=shape.get("seqlen_q", shape.get("q_seqlen_partial")),
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
    return Launch(tests.attention_cte, "trn2", arguments, lnc(row))


def mlp_tkg(row, folder):
    """The token-generation path of the MLP."""
    clone = folder / "nki-library"
    tests = _module(clone, f"{CORE_TESTS}.mlp.test_mlp_tkg")
    common = _module(clone, f"{CORE_TESTS}.mlp.test_mlp_common")
    shape, cores = _shape(row, clone), lnc(row)
    is_optimized = shape["use_tkg_down_proj_optimized_layout"]
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
    arguments = common.build_fused_norm_mlp(
        **{name: shape[name] for name in same},
        use_tkg_down_proj_optimized_layout=is_optimized,
        quantization_type=shape["quant_type"],
        lnc_degree=cores,
        skip_gate=shape["skip_gate_proj"],
        tensor_generator=generator(*drawn, **(layout if is_optimized else {})),
    )
    return Launch(tests.mlp, "trn2", arguments, cores)


def mlp_cte(row, folder):
    """The prefill path of the MLP."""
    clone = folder / "nki-library"
    tests = _module(clone, f"{CORE_TESTS}.mlp.test_mlp_cte")
    shape, cores = _shape(row, clone), lnc(row)
    quantization = shape["quantization_type"]
    is_quantized = quantization.name != "NONE"
    drawn = {"std": 10.0, "modifier_fn": tests.modify_for_row_quant, "lnc": cores}
    same = ("batch", "seqlen", "hidden", "intermediate", "fused_add", "norm_type", "store_add")
    same += ("skip_gate", "act_fn_type", "gate_bias", "up_bias", "down_bias", "norm_bias")
    arguments = tests.build_fused_norm_mlp(
        **{name: shape[name] for name in same},
        dtype=tests.nl.bfloat16,
        quantization_type=quantization,
        quant_dtype=tests.nl.float8_e4m3,
        is_input_quantized=is_quantized,
        lnc_degree=cores if cores > 1 else None,
        tensor_generator=tests.gaussian_tensor_generator(**(drawn if is_quantized else {})),
    )
    return Launch(tests.mlp, "trn2", arguments, cores)


def qkv_tkg(row, folder):
    """The token-generation path of the projection to queries, keys and values."""
    clone = folder / "nki-library"
    tests = _module(clone, f"{CORE_TESTS}.qkv.test_qkv_tkg")
    shape = _shape(row, clone)
    same = ("batch", "seqlen", "hidden_dim", "fused_qkv_dim", "d_head", "eps", "norm_type")
    same += ("quantization_type", "fused_add", "output_layout", "lnc_degree", "norm_bias")
    arguments = tests.build_qkv_input(
        **{name: shape[name] for name in (*same, "qkv_bias")},
        dtype=tests.nl.bfloat16,
        num_kv_heads=1,
        num_q_heads=shape["fused_qkv_dim"] // shape["d_head"] - 2,
    )
    arguments["is_h_dim_4h_transposed"] = False
    return Launch(tests.qkv, "trn2", arguments, lnc(row))


def rmsnorm_quant(row, folder):
    """RMS norm and quantization of rows."""
    clone = folder / "nki-library"
    tests = _module(clone, f"{CORE_TESTS}.rmsnorm.test_rmsnorm_quant")
    shape = _shape(row, clone)
    same = ("lnc_degree", "batch", "seqlen", "lower_bound", "tensor_gen", "quant_type")
    arguments = tests.build_rmsnorm_quant_kernel_input(
        **{name: shape[name] for name in (*same, "quant_only")},
        hidden_dim=shape["hidden"],
        dtype=tests.nl.bfloat16,
    )
    return Launch(tests.rmsnorm_quant_kernel, "trn2", arguments, lnc(row))


def lnc(row):
    """The logical NeuronCore's size that the row states, or that its magnitude says."""
    return 2 if row["hardware"].endswith("LNC=2") else 1

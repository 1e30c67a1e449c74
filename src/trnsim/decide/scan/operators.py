"""Support of PyTorch functions: whether the compiler lowers the ATen operators that they call.

`OPERATORS_BY_FUNCTION` has the operators of a function, `LOWERED` the operators that are lowered.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from trnsim.decide.scan.lowered import LOWERED

NO_LOWERING_ADVICE: Final = (
    "the compiler has no lowering for {}: compute it on the host, or in other operators"
)
"""Advice about operators without a lowering, whose names replace the braces."""

_PREFIX_BY_MODULE: Final = {
    "torch.nn.functional.": "",
    "torch.linalg.": "linalg_",
    "torch.fft.": "fft_",
    "torch.special.": "special_",
    "torch.": "",
}
"""Prefix of an operator's name, by the module of its PyTorch function."""

_NN_PREFIX: Final = "torch.nn."
_FUNCTIONAL_PREFIX: Final = "torch.nn.functional."
_WORD_BOUNDARY_PATTERN: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
"""Boundaries between the words of a class name: Layer|Norm, CTC|Loss."""
_SETTING_FUNCTIONS: Final = frozenset(
    {
        "autocast", "compile", "device", "enable_grad", "finfo", "from_numpy", "get_default_dtype",
        "iinfo", "inference_mode", "initial_seed", "is_grad_enabled", "is_tensor", "load",
        "manual_seed", "no_grad", "save", "seed", "set_default_device", "set_default_dtype",
        "set_float32_matmul_precision", "set_grad_enabled", "set_num_threads", "set_printoptions",
        "tensor", "use_deterministic_algorithms",
    }
)  # fmt: skip
"""PyTorch functions that compute nothing on a device."""


class Lowering(Enum):
    """Support of a PyTorch function: all its operators are lowered, some are not, or unknown."""

    LOWERED = "lowered"
    MISSING = "missing"
    UNKNOWN = "unknown"


OPERATORS_BY_FUNCTION: Final[dict[str, tuple[str, ...]]] = {
    "absolute": ("abs",), "adaptive_max_pool1d": ("adaptive_max_pool2d",),
    "argsort": ("sort",), "argwhere": ("nonzero",), "atleast_2d": ("unsqueeze",),
    "batch_norm": ("native_batch_norm",), "bilinear": ("bmm",),
    "binary_cross_entropy_with_logits": ("log_sigmoid_forward",), "bincount": ("bincount",),
    "block_diag": ("cat",), "broadcast_to": ("expand",), "cartesian_prod": ("cat",),
    "cdist": ("_cdist_forward",), "chain_matmul": ("mm",), "cholesky": ("cholesky",),
    "cholesky_solve": ("cholesky_solve",), "chunk": ("split",), "clip": ("clamp",),
    "column_stack": ("cat",), "combinations": ("masked_select",), "complex": ("complex",),
    "concat": ("cat",), "concatenate": ("cat",), "conv1d": ("convolution",),
    "conv2d": ("convolution",), "conv3d": ("convolution",), "conv_transpose1d": ("convolution",),
    "conv_transpose2d": ("convolution",), "cosine_similarity": ("linalg_vector_norm",),
    "cov": ("mm",), "cross": ("linalg_cross",), "cross_entropy": ("_log_softmax",
    "nll_loss_forward"), "ctc_loss": ("_ctc_loss",), "cummax": ("cummax",),
    "cummin": ("cummin",), "det": ("_linalg_det",), "diag": ("diagonal",),
    "divide": ("div",), "dropout": ("native_dropout",), "einsum": ("bmm",),
    "embedding_bag": ("_embedding_bag",), "fft_fft": ("_fft_r2c",), "fft_fft2": ("_fft_c2c",),
    "fft_fftn": ("_fft_c2c",), "fft_ifft": ("_fft_c2c",), "fft_ifft2": ("_fft_c2c",),
    "fft_ifftn": ("_fft_c2c",), "fft_irfft": ("_fft_c2r",), "fft_irfft2": ("_fft_c2r",),
    "fft_irfftn": ("_fft_c2r",), "fft_rfft": ("_fft_r2c",), "fft_rfft2": ("_fft_r2c",),
    "fft_rfftn": ("_fft_r2c",), "flatten": ("view",), "fliplr": ("flip",), "flipud": ("flip",),
    "frexp": ("frexp",), "gcd": ("gcd",), "geqrf": ("geqrf",), "grid_sample": ("grid_sampler_2d",),
    "group_norm": ("native_group_norm",), "gumbel_softmax": ("exponential", "_softmax"),
    "hinge_embedding_loss": ("clamp_min",), "histogram": ("histogram",),
    "histogramdd": ("_histogramdd_bin_edges",), "hstack": ("cat",), "i0": ("i0",),
    "igamma": ("igamma",), "igammac": ("igammac",), "index_reduce": ("index_reduce",),
    "inner": ("mm",), "interpolate": ("upsample_nearest2d",), "inverse": ("linalg_inv_ex",),
    "istft": ("_fft_c2r",), "kl_div": ("xlogy",), "kron": ("mul",), "l1_loss": ("abs", "mean"),
    "layer_norm": ("native_layer_norm",), "lcm": ("lcm",), "linalg_cholesky":
    ("linalg_cholesky_ex",), "linalg_det": ("_linalg_det",), "linalg_eig": ("linalg_eig",),
    "linalg_eigh": ("_linalg_eigh",), "linalg_eigvals": ("linalg_eig",),
    "linalg_eigvalsh": ("_linalg_eigh",), "linalg_inv": ("linalg_inv_ex",),
    "linalg_lstsq": ("linalg_lstsq",), "linalg_lu": ("linalg_lu",),
    "linalg_lu_factor": ("linalg_lu_factor_ex",), "linalg_lu_solve": ("linalg_lu_solve",),
    "linalg_matrix_exp": ("linalg_matrix_exp",), "linalg_matrix_norm": ("linalg_vector_norm",),
    "linalg_multi_dot": ("mm",), "linalg_norm": ("linalg_vector_norm",),
    "linalg_pinv": ("linalg_pinv",), "linalg_qr": ("linalg_qr",),
    "linalg_slogdet": ("_linalg_slogdet",), "linalg_solve": ("_linalg_solve_ex",),
    "linalg_svd": ("_linalg_svd",), "linalg_svdvals": ("_linalg_svd",),
    "log_softmax": ("_log_softmax",), "logcumsumexp": ("logcumsumexp",),
    "logdet": ("_linalg_slogdet",), "logsigmoid": ("log_sigmoid_forward",),
    "lu": ("linalg_lu_factor_ex",),
    "masked_select": ("masked_select",), "matmul": ("mm", "bmm"),
    "matrix_exp": ("linalg_matrix_exp",), "max_unpool2d": ("max_unpool2d",), "meshgrid":
    ("expand",), "mode": ("mode",), "moveaxis": ("permute",), "movedim": ("permute",),
    "multi_head_attention_forward": ("scaled_dot_product_attention",), "multinomial":
    ("multinomial",), "multiply": ("mul",), "nanmean": ("nansum",), "nanmedian": ("nanmedian",),
    "narrow": ("slice",), "negative": ("neg",), "nll_loss": ("nll_loss_forward",),
    "nonzero": ("nonzero",), "normalize": ("linalg_vector_norm",), "one_hot": ("scatter",),
    "outer": ("mul",), "pad": ("constant_pad_nd",), "pairwise_distance": ("linalg_vector_norm",),
    "pdist": ("_pdist_forward",), "pinverse": ("linalg_pinv",), "poisson": ("poisson",),
    "polar": ("polar",), "polygamma": ("polygamma",), "prelu": ("_prelu_kernel",), "qr":
    ("linalg_qr",), "quantile": ("sort",), "ravel": ("view",), "relu6": ("hardtanh",),
    "renorm": ("renorm",), "rms_norm":
    ("_fused_rms_norm",), "row_stack": ("cat",), "rrelu": ("rrelu_with_noise",),
    "segment_reduce": ("segment_reduce",), "slogdet": ("_linalg_slogdet",), "softmax":
    ("_softmax",), "softmin": ("_softmax",), "special_bessel_j0": ("special_bessel_j0",),
    "special_bessel_j1": ("special_bessel_j1",), "special_i0": ("i0",), "special_i1":
    ("special_i1",), "special_zeta": ("special_zeta",), "stft": ("_fft_r2c",), "subtract":
    ("sub",), "svd": ("_linalg_svd",), "swapaxes": ("transpose",), "tensor_split": ("slice",),
    "tensordot": ("mm",), "tile": ("repeat",), "trapezoid": ("sum",), "triangular_solve":
    ("triangular_solve",), "tril_indices": ("tril_indices",), "triu_indices": ("triu_indices",),
    "unbind": ("select",), "unflatten": ("view",), "unfold": ("im2col",), "fold": ("col2im",),
    "unique": ("_unique2",), "unique_consecutive": ("unique_consecutive",), "upsample":
    ("upsample_nearest2d",), "view_as_complex": ("view_as_complex",), "view_as_real":
    ("view_as_real",), "vstack": ("cat",),
}  # fmt: skip
"""ATen operators that a function calls on dense tensors of real numbers, by function name.

A function that is missing here is lowered if `LOWERED` has an operator of its name; otherwise it is
unknown.

Source: PyTorch 2.13, native_functions.yaml and the functions' own code.
"""


def lowering(full_name: str) -> tuple[Lowering, tuple[str, ...]]:
    """Support of a PyTorch function or module, and its operators without a lowering.

    Args:
        full_name: name with its module, such as "torch.linalg.svd" or "torch.nn.LayerNorm".
    """
    lowerings = [_function_lowering(name) for name in _operator_names(full_name)]
    known_pairs = (pair for pair in lowerings if pair[0] is not Lowering.UNKNOWN)
    return next(known_pairs, (Lowering.UNKNOWN, ()))


def is_function(full_name: str) -> bool:
    """True if a name may be a function on tensors: no class, no setting, in no submodule."""
    module = next(
        (prefix for prefix in _PREFIX_BY_MODULE if full_name.startswith(prefix)), "torch."
    )
    name = full_name.removeprefix(module)
    return "." not in name and name.islower() and name not in _SETTING_FUNCTIONS


def _operator_names(full_name: str) -> tuple[str, ...]:
    """Names under which the operator of a function or module may be known."""
    if full_name.startswith(_NN_PREFIX) and not full_name.startswith(_FUNCTIONAL_PREFIX):
        name = full_name.removeprefix(_NN_PREFIX)
        return name.lower(), _WORD_BOUNDARY_PATTERN.sub("_", name).lower()
    for module, prefix in _PREFIX_BY_MODULE.items():
        if full_name.startswith(module):
            return (prefix + full_name.removeprefix(module),)
    return ()


def _function_lowering(name: str) -> tuple[Lowering, tuple[str, ...]]:
    """Support of a function by its plain name, and its operators without a lowering."""
    plain_name = name.rstrip("_")
    if plain_name in LOWERED:
        return Lowering.LOWERED, ()
    if plain_name not in OPERATORS_BY_FUNCTION:
        return Lowering.UNKNOWN, ()
    missing_names = tuple(
        operator for operator in OPERATORS_BY_FUNCTION[plain_name] if operator not in LOWERED
    )
    return (Lowering.MISSING if missing_names else Lowering.LOWERED), missing_names

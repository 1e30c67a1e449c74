"""Rules of torch_xla's programs: which numbers are inputs, and which operators the host computes.

A Python number that an operator takes as `Scalar` is an input of the program, so another number
compiles nothing, except 0 and 1, which are constants. Sizes, dimensions, indices, exponents and
epsilons are constants. Measured with torch_xla 2.9.0 on its CPU, an operator with two values each;
an operator without an entry in its dispatch table has no kernel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from trnsim.torch import pytorch
from trnsim.torch.aten.operator_call import plain_name
from trnsim.torch.dispatch.contracts import Contract, read_contract

NO_SPECIAL_SCALARS: Final = "XLA_NO_SPECIAL_SCALARS"
"""A variable of torch_xla: set to 1, the numbers 0 and 1 are inputs as all others."""

_SCALAR_TYPES: Final = ("number", "Optional[number]", "List[number]", "Tensor", "Optional[Tensor]")
"""Types of arguments whose numbers are inputs: PyTorch passes numbers as tensors, too."""
_CONSTANT_SCALARS: Final = frozenset(
    {"pow", "threshold", "norm", "linalg_vector_norm", "constant_pad_nd", "arange", "__lshift__"}
    | {"__rshift__", "__ilshift__", "__irshift__", "bitwise_left_shift", "bitwise_right_shift"}
    | {"_foreach_pow", "_foreach_norm", "renorm", "cdist", "pdist"}
)
"""Operators whose numbers are constants."""
_INPUT_FLOATS: Final = {
    "native_dropout": ("p",),
    "bernoulli": ("p",),
    "uniform": ("from", "to"),
    "normal": ("mean", "std"),
    "exponential": ("lambd",),
    "native_batch_norm": ("momentum",),
    "_native_batch_norm_legit": ("momentum",),
    "smooth_l1_loss": ("beta",),
    "smooth_l1_loss_backward": ("beta",),
    "nan_to_num": ("nan", "posinf", "neginf"),
    "_fused_rms_norm": ("eps",),
}
"""Arguments of type float that are inputs; all others are constants."""

_HOST_TEXT: Final = """
_add_relu _aminmax _cdist_backward _cholesky_solve_helper _compute_linear_combination _ctc_loss
_ctc_loss_backward _cummax_helper _cummin_helper _dirichlet_grad _embedding_bag
_embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward _fft_c2c _fft_c2r
_fft_r2c _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors _int_mm
_linalg_det _linalg_eigvals _linalg_solve_ex _logcumsumexp _masked_softmax
_masked_softmax_backward _pdist_backward _sample_dirichlet _scaled_mm _segment_reduce_backward
_standard_gamma _standard_gamma_grad _unique _unique2 _upsample_bicubic2d_aa
_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
_upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
_upsample_nearest_exact2d_backward _upsample_nearest_exact3d _upsample_nearest_exact3d_backward
adaptive_max_pool3d adaptive_max_pool3d_backward addbmm addmv aminmax angle bincount binomial
bucketize cauchy channel_shuffle cholesky_inverse col2im complex conj_physical copysign digamma
embedding_renorm equal exp2 fmax fmin fractional_max_pool2d fractional_max_pool2d_backward
fractional_max_pool3d fractional_max_pool3d_backward frexp gcd geometric geqrf glu_backward
grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward heaviside histc
histogram huber_loss huber_loss_backward hypot i0 igamma igammac im2col index_reduce isin isposinf
lcm lgamma linalg_cholesky_ex linalg_cross linalg_eig linalg_eigvals linalg_householder_product
linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_lu_solve
linalg_matrix_exp linalg_qr linalg_solve_triangular log_normal logaddexp logaddexp2 logit_backward
logspace lu_unpack masked_select median mode multi_margin_loss multi_margin_loss_backward
multilabel_margin_loss_backward multilabel_margin_loss_forward multinomial nanmedian nansum
nextafter nonzero nonzero_static ormqr poisson polar polygamma renorm repeat_interleave
searchsorted segment_reduce signbit sinc special_airy_ai special_bessel_j0 special_bessel_j1
special_bessel_y0 special_bessel_y1 special_entr special_erfcx special_i0e special_i1 special_i1e
special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
special_scaled_modified_bessel_k1 special_spherical_bessel_j0 special_xlog1py special_zeta unfold
unfold_backward unique_consecutive unique_dim unique_dim_consecutive upsample_bicubic2d
upsample_bicubic2d_backward upsample_linear1d upsample_linear1d_backward upsample_nearest1d
upsample_nearest1d_backward upsample_nearest3d upsample_nearest3d_backward
upsample_trilinear3d_backward vdot
"""
_HOST: Final = frozenset(_HOST_TEXT.split())
"""Operators that torch_xla computes on the host, by their plain names."""
_HOST_NAMES: Final = {"unfold": "aten::unfold_copy"}
"""Counters of these operators, where they differ from their names."""
_MASKED: Final = frozenset({"index", "index_put", "_index_put_impl", "_unsafe_index"})
"""Operators whose indices of type bool the host counts first."""
MASK_COUNTER: Final = "aten::nonzero"
"""The counter of such an index."""
_SCALED: Final = {"addmm": ("beta", "alpha")}
"""Operators that the host computes unless these arguments are 1."""
_STATISTICS: Final = {"native_batch_norm": (3, 4, 5)}
"""Operators that write to two arguments, which their schemas do not say, if the third is true."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """The part of an operator's schema on which its recording depends.

    Attributes:
        name: the operator's full name.
        inputs: names of arguments whose numbers are inputs.
        arguments: the names of all arguments, by position.
        ignored: arguments without influence on values.
        written: positions and names of arguments that it writes to.
        returned: for each result True if it lies in new memory.
        is_random: True if it draws random numbers.
        host_name: the counter of an operator that the host computes; "" for others.
        is_masked: True if an index of type bool is counted by the host.
        scaled: arguments that must be 1, since otherwise the host computes the operator.
        statistics: positions of the arguments that it writes to if the last of these is true.
    """

    name: str
    plain: str
    inputs: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    written: tuple[tuple[int, str], ...] = ()
    returned: tuple[bool, ...] = ()
    is_random: bool = False
    host_name: str = ""
    is_masked: bool = False
    scaled: tuple[str, ...] = ()
    statistics: tuple[int, ...] = ()


@cache
def rule_of(name: str) -> RecordingRule:
    """The rule of an operator by its full name; without a schema no number is an input."""
    operator = pytorch.overload(name)
    plain = plain_name(name)
    if operator is None:
        return RecordingRule(name, plain)
    schema: Any = operator._schema  # noqa: SLF001  PyTorch's way to ask
    contract: Contract = read_contract(operator)
    floats = _INPUT_FLOATS.get(plain, ())
    are_constant = plain in _CONSTANT_SCALARS
    inputs = {
        argument.name
        for argument in schema.arguments
        if (str(argument.type) in _SCALAR_TYPES and not are_constant) or argument.name in floats
    }
    written = tuple(
        (index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    counter = _HOST_NAMES.get(plain, name)
    return RecordingRule(
        name,
        plain,
        frozenset(inputs),
        contract.arguments,
        frozenset({"generator", "device", "pin_memory", "layout", *contract.outs}),
        written,
        tuple(slot is None for slot in contract.returned_arguments),
        contract.is_seeded or contract.generator is not None,
        counter if plain in _HOST else "",
        plain in _MASKED,
        _SCALED.get(plain, ()),
        _STATISTICS.get(plain, ()),
    )


def is_special(value: complex) -> bool:
    """True for 0 and 1, which are constants of a program unless `NO_SPECIAL_SCALARS` is set."""
    return value in (0, 1) and os.environ.get(NO_SPECIAL_SCALARS) != "1"

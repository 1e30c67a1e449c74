"""Bits of a checkpoint's weights: ``torch_dtype`` and ``quantization_config``.

Embedding tables, the LM head, norms and routers keep the checkpoint's dtype in all methods here.
So do the matrices that ``modules_to_not_convert`` and similar keys list, layer by layer. The bits
of a weight include its share of scales and zero points.

Source: transformers 5.23, utils/quantization_config.py, and for the scales of each method the
``Source`` of its function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

from trnsim.workload.architecture import Layer, Tower
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.matrix_bits import MatrixBits, with_own_bits
from trnsim.workload.module_names import matrix_names
from trnsim.workload.module_patterns import EVERY_MATRIX, ModulePatterns

DTYPES: Final = {"float32": 32, "bfloat16": 16, "float16": 16}
"""Bits of an element by ``torch_dtype``."""
_USUAL_DTYPE: Final = "bfloat16"
_USUAL_BITS: Final = 16
"""Bits of an element that is not quantized."""
_SCALE_BITS: Final = 16
"""Bits of a scale, where the configuration does not say."""
_FLOAT_BITS: Final = 32
_BYTE_BITS: Final = 8
_MX_BLOCK: Final = 32
_NV_BLOCK: Final = 16
_BNB_BLOCK: Final = 64
_BNB_NESTED: Final = 256
_SKIPPED_KEYS: Final = (
    "modules_to_not_convert",
    "ignore",
    "llm_int8_skip_modules",
    "ignored_layers",
    "exclude_modules",
)
"""Keys of the names of modules that are not quantized."""
_MLP_PREFIX: Final = "mlp."


@dataclass(frozen=True)
class Bits:
    """Bits of a checkpoint's parameters and operands, as in the fields of `Architecture`."""

    weight_bits: float
    other_bits: float
    kv_bits: float
    product_bits: float
    mlp_bits: float = 0


@dataclass(frozen=True)
class _Method:
    """The bits that a quantization gives to a checkpoint.

    Attributes:
        weight: bits of a quantized weight, its share of scales and zero points included.
        product: bits of the operands of products with such weights.
        kv: bits of a key or value; 0 where these keep the checkpoint's dtype.
        is_mlp_alone: whether weights of attention keep the checkpoint's dtype.
    """

    weight: float
    product: float = _USUAL_BITS
    kv: float = 0
    is_mlp_alone: bool = False


def bits_of(keys: ConfigKeys) -> Bits:
    """The bits of a checkpoint's matrices, except those that lists of modules name.

    Raises:
        BadInput: for an unknown dtype or method, or an illegal number.
    """
    plain_bits = DTYPES[dtype_of(keys)]
    quantized = _quantized(keys)
    if quantized is None:
        return Bits(plain_bits, plain_bits, plain_bits, plain_bits)
    _, _, method = quantized
    return Bits(
        weight_bits=plain_bits if method.is_mlp_alone else method.weight,
        other_bits=plain_bits,
        kv_bits=method.kv or plain_bits,
        product_bits=method.product,
        mlp_bits=method.weight,
    )


def with_listed_bits(
    keys: ConfigKeys, model_type: str, towers: tuple[Tower, ...]
) -> tuple[Tower, ...]:
    """The towers of a checkpoint with the bits of the matrices that its lists of modules name.

    Raises:
        BadInput: as `bits_of`, and for a list of anything but names.
    """
    quantized = _quantized(keys)
    if quantized is None:
        return towers
    listed_bits = _ListedBits(*quantized, bits_of(keys))
    if not listed_bits.has_lists:
        return towers
    return tuple(
        with_own_bits(tower, partial(listed_bits.layer_bits, model_type, tower.name))
        for tower in towers
    )


class _ListedBits:
    """The bits of matrices by the lists of modules of a ``quantization_config``."""

    def __init__(self, config: ConfigKeys, name: str, method: _Method, bits: Bits) -> None:
        self._method, self._bits = method, bits
        self._skipped_patterns = [
            ModulePatterns(config, key, name) for key in _SKIPPED_KEYS if config.first((key,))
        ]
        self._groups = _groups(config, name)
        lists = [*self._skipped_patterns, *(targets for targets, _ in self._groups)]
        self.has_lists = bool(lists)
        self._has_numbers = any(patterns.has_numbers for patterns in lists)
        self._of_layer = cache(self._numbered_layer_bits)

    def layer_bits(
        self, model_type: str, tower: str, layer: Layer, index: int
    ) -> tuple[MatrixBits, ...]:
        """The matrices of a layer whose bits differ from the checkpoint's `Bits`."""
        return self._of_layer(model_type, tower, layer, index if self._has_numbers else 0)

    def _numbered_layer_bits(
        self, model_type: str, tower: str, layer: Layer, index: int
    ) -> tuple[MatrixBits, ...]:
        matrices = (
            MatrixBits(name, *self._module_bits(name, modules))
            for name, modules in matrix_names(model_type, tower, layer, index)
        )
        return tuple(matrix for matrix in matrices if not self._is_usual(matrix))

    def _is_usual(self, matrix: MatrixBits) -> bool:
        """True if a matrix has the bits that the checkpoint's `Bits` give to its kind."""
        bits = self._bits
        weight = bits.mlp_bits if matrix.name.startswith(_MLP_PREFIX) else bits.weight_bits
        return (matrix.weight_bits, matrix.product_bits) == (weight, bits.product_bits)

    def _module_bits(self, name: str, modules: Sequence[str]) -> tuple[float, float]:
        """Bits of a weight and of operands; a matrix of several modules is unquantized if one is.

        vLLM refuses to fuse modules that differ in this.
        """
        bits, plain = self._bits, self._bits.other_bits
        if any(
            patterns.is_of_class or patterns.has_any(modules) for patterns in self._skipped_patterns
        ):
            return plain, plain
        if not self._groups:
            is_mlp = name.startswith(_MLP_PREFIX)
            return bits.mlp_bits if is_mlp else bits.weight_bits, bits.product_bits
        for targets, scheme in self._groups:
            if targets.has_any(modules):
                return scheme.weight, scheme.product
        for targets, scheme in self._groups:
            if targets.is_of_class:
                return scheme.weight, scheme.product
        return plain, plain


def _quantized(keys: ConfigKeys) -> tuple[ConfigKeys, str, _Method] | None:
    """The ``quantization_config``, its method's name and the method; None without one.

    Raises:
        BadInput: for an unknown method, or an illegal number.
    """
    if keys.config.get("quantization_config") is None:
        return None
    config = keys.nested("quantization_config")
    name = config.text("quant_method") or _old_name(config)
    if name not in METHODS:
        legal = ", ".join(METHODS)
        raise config.refuse("quant_method", name, legal, "bits of others are not known")
    return config, name, METHODS[name](config)


def dtype_of(keys: ConfigKeys) -> str:
    """``torch_dtype``, a key of `DTYPES`; bfloat16, the compiler's own, by default.

    Raises:
        BadInput: for any other.
    """
    name = keys.first(("dtype", "torch_dtype"))
    dtype = keys.text(name).removeprefix("torch.") if name else "auto"
    if dtype == "auto":
        return _USUAL_DTYPE
    if dtype not in DTYPES:
        legal = ", ".join((*DTYPES, "auto"))
        raise keys.refuse(name or "", dtype, legal, "a checkpoint's dtype")
    return dtype


def _old_name(config: ConfigKeys) -> str:
    """The method of files older than ``quant_method``, which only bitsandbytes wrote."""
    is_known = config.flag("load_in_8bit") or config.flag("load_in_4bit")
    return "bitsandbytes" if is_known else ""


def _bits_with_scales(config: ConfigKeys, bits: float, scale: float) -> float:
    """Bits of a weight with its share of the scale of its group.

    Scales of whole rows (a ``group_size`` of -1, or none) are neglected.
    """
    size = config.whole("group_size", default=0, minimum=-1)
    return bits + scale / size if size > 0 else bits


def _fp8(config: ConfigKeys) -> _Method:
    """FP8 with a scale in float32 for each block.

    Source: DeepSeek-V3 (arXiv:2412.19437), section 3.3.2.
    """
    block = config.items("weight_block_size", int, "rows and columns")
    scale = _FLOAT_BITS / (block[0] * block[1]) if len(block) == 2 and min(block) > 0 else 0.0  # noqa: PLR2004  rows, columns
    return _Method(_BYTE_BITS + scale, product=_BYTE_BITS)


def _integers(config: ConfigKeys) -> _Method:
    """Integers with a scale in float16 and a zero point for each group, of weights alone.

    Source: AWQ (arXiv:2306.00978), section 4; GPTQ (arXiv:2210.17323), section 4.
    """
    name = "bits" if config.first(("bits",)) else "w_bit"
    bits = config.whole(name, default=4)
    if bits > _BYTE_BITS:
        raise config.refuse(name, bits, f"1 to {_BYTE_BITS}", "bits of a weight")
    return _Method(_bits_with_scales(config, bits, _SCALE_BITS + bits))


def _bitsandbytes(config: ConfigKeys) -> _Method:
    """Eight bits with a scale for each row, or four with a scale for each 64 weights.

    Source: LLM.int8() (arXiv:2208.07339), section 3; QLoRA (arXiv:2305.14314), section 3.
    """
    if not config.flag("load_in_4bit"):
        return _Method(_BYTE_BITS, product=_BYTE_BITS)
    scale: float = _FLOAT_BITS
    if config.flag("bnb_4bit_use_double_quant"):
        scale = _BYTE_BITS + _FLOAT_BITS / _BNB_NESTED
    return _Method(4 + scale / _BNB_BLOCK)


def _compressed_tensors(config: ConfigKeys) -> _Method:
    """The quantization of the first group's weights and activations; without groups, of KV alone.

    Source: compressed-tensors, quantization/quant_args.py.
    """
    kv = _num_bits(config, "kv_cache_scheme", 0)
    groups = config.nested("config_groups")
    if not groups.config:  # keys and values alone
        return _Method(_USUAL_BITS, kv=kv)
    return replace(_scheme(groups.nested(next(iter(groups.config)))), kv=kv)


def _groups(config: ConfigKeys, method: str) -> list[tuple[ModulePatterns, _Method]]:
    """The targets of each group of compressed-tensors and its quantization.

    [] if a single group has every matrix.

    Source: compressed-tensors, quantization/quant_scheme.py.
    """
    if config.config.get("config_groups") is None or method != "compressed-tensors":
        return []
    groups = config.nested("config_groups")
    schemes = [groups.nested(name) for name in groups.config]
    if [scheme.config.get("targets") or [EVERY_MATRIX] for scheme in schemes] == [[EVERY_MATRIX]]:
        return []
    return [(ModulePatterns(scheme, "targets", method), _scheme(scheme)) for scheme in schemes]


def _scheme(group: ConfigKeys) -> _Method:
    """The quantization of a group of compressed-tensors."""
    product_bits = _num_bits(group, "input_activations", _USUAL_BITS)
    bits = _num_bits(group, "weights", _USUAL_BITS)
    if bits == _USUAL_BITS:
        return _Method(bits, product_bits)
    weights = group.nested("weights")
    scale_bits = (
        _BYTE_BITS if weights.text("type") == "float" and bits < _BYTE_BITS else _SCALE_BITS
    )
    return _Method(_bits_with_scales(weights, bits, scale_bits), product_bits)


def _num_bits(config: ConfigKeys, name: str, usual: int) -> int:
    """Bits of the values that the nested configuration `name` quantizes; `usual` without one.

    Raises:
        BadInput: they are not 1 to 16.
    """
    if not config.config.get(name):
        return usual
    return config.nested(name).whole("num_bits", maximum=_USUAL_BITS)


def _mxfp4(config: ConfigKeys) -> _Method:
    """MXFP4: four bits, and eight of scale for each 32 weights; of experts alone.

    Source: OCP Microscaling Formats (MX) Specification 1.0, table 1.
    """
    del config
    return _Method(4 + _BYTE_BITS / _MX_BLOCK, is_mlp_alone=True)


def _modelopt(config: ConfigKeys) -> _Method:
    """The bits of FP8, or NVFP4 (4, and 8 of scale for each 16 weights), and of keys and values.

    Source: NVIDIA, TensorRT Model Optimizer, formats of config.json.
    """
    algorithm = config.text("quant_algo", "FP8")
    kinds = {
        "FP8": _Method(_BYTE_BITS, _BYTE_BITS),
        "NVFP4": _Method(4 + _BYTE_BITS / _NV_BLOCK, 4),
    }
    if algorithm not in kinds:
        raise config.refuse("quant_algo", algorithm, ", ".join(kinds), "bits of others are unknown")
    return replace(kinds[algorithm], kv=_num_bits(config, "kv_cache_scheme", 0))


METHODS: Final[dict[str, Callable[[ConfigKeys], _Method]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _integers,
    "gptq": _integers,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
}
"""Readers of ``quantization_config``, by ``quant_method``."""

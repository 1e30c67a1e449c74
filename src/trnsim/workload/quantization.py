"""Bits of a checkpoint's weights: ``torch_dtype`` and ``quantization_config``.

Tables, scores of words, norms and routers keep the checkpoint's dtype, as all methods here leave
them; ``modules_to_not_convert`` and its like keep attention or MLPs too, where they name them for
all layers. Bits of a weight have their share of scales and zero points.

Source: transformers 5.23, utils/quantization_config.py, and for the scales of each method the
``Source`` of its function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.workload.families.keys import ConfigKeys

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
)
"""Keys of the names of modules that are not quantized."""
_MLP_NAME: Final = re.compile(r"(mlp|feed_forward|experts)(\W*|.*(up|down|gate)_proj.*)$")
_ATTENTION_NAME: Final = re.compile(r"attn|attention")


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
    """What a quantization makes of a checkpoint.

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


def bits_of(keys: ConfigKeys, layers: int) -> Bits:
    """The bits of a checkpoint of `layers` layers.

    Raises:
        BadInput: for an unknown dtype or method, or an illegal number.
    """
    plain = DTYPES[dtype_of(keys)]
    if keys.config.get("quantization_config") is None:
        return Bits(plain, plain, plain, plain)
    config = keys.nested("quantization_config")
    name = config.text("quant_method") or _old_name(config)
    if name not in METHODS:
        legal = ", ".join(METHODS)
        raise config.refuse("quant_method", name, legal, "bits of others are not known")
    method = METHODS[name](config)
    attention_kept, mlp_kept = _skipped_halves(config, layers)
    return Bits(
        weight_bits=plain if attention_kept or method.is_mlp_alone else method.weight,
        other_bits=plain,
        kv_bits=method.kv or plain,
        product_bits=method.product,
        mlp_bits=plain if mlp_kept else method.weight,
    )


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


def _skipped_halves(config: ConfigKeys, layers: int) -> tuple[bool, bool]:
    """True for each of attention and MLPs that no layer quantizes."""
    names = [
        module for key in _SKIPPED_KEYS for module in config.items(key, str, "names of modules")
    ]
    return _all_named(names, _ATTENTION_NAME, layers), _all_named(names, _MLP_NAME, layers)


def _all_named(names: Sequence[str], pattern: re.Pattern[str], layers: int) -> bool:
    """True if `names` have a match in every layer, or one without the number of a layer."""
    matches = [name for name in names if pattern.search(name) and "vision" not in name]
    numbers = {number for name in matches for number in re.findall(r"\.(\d+)\.", name)}
    return len(numbers) >= layers or any(not re.search(r"\d", name) for name in matches)


def _bits_with_scales(config: ConfigKeys, bits: float, scale: float) -> float:
    """Bits of a weight with its share of the scale of its group.

    Scales of whole rows (a ``group_size`` of -1, or none) are neglected.
    """
    size = config.whole("group_size", default=0, least=-1)
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
    group = groups.nested(next(iter(groups.config)))
    product_bits = _num_bits(group, "input_activations", _USUAL_BITS)
    bits = _num_bits(group, "weights", _USUAL_BITS)
    if bits == _USUAL_BITS:
        return _Method(bits, product_bits, kv)
    weights = group.nested("weights")
    of_scale = _BYTE_BITS if weights.text("type") == "float" and bits < _BYTE_BITS else _SCALE_BITS
    return _Method(_bits_with_scales(weights, bits, of_scale), product_bits, kv)


def _num_bits(config: ConfigKeys, name: str, usual: int) -> int:
    """Bits of what the nested configuration `name` quantizes; `usual` without one.

    Raises:
        BadInput: they are not 1 to 16.
    """
    if not config.config.get(name):
        return usual
    return config.nested(name).whole("num_bits", most=_USUAL_BITS)


def _mxfp4(config: ConfigKeys) -> _Method:
    """MXFP4: four bits, and eight of scale for each 32 weights; of experts alone.

    Source: OCP Microscaling Formats (MX) Specification 1.0, table 1.
    """
    del config
    return _Method(4 + _BYTE_BITS / _MX_BLOCK, is_mlp_alone=True)


def _modelopt(config: ConfigKeys) -> _Method:
    """FP8, or NVFP4: four bits, and eight of scale for each 16 weights.

    Source: NVIDIA, TensorRT Model Optimizer, formats of config.json.
    """
    algorithm = config.text("quant_algo", "FP8")
    kinds = {
        "FP8": _Method(_BYTE_BITS, _BYTE_BITS),
        "NVFP4": _Method(4 + _BYTE_BITS / _NV_BLOCK, 4),
    }
    if algorithm not in kinds:
        raise config.refuse("quant_algo", algorithm, ", ".join(kinds), "bits of others are unknown")
    return kinds[algorithm]


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

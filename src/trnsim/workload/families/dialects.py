"""Translation of configurations with unusual keys to the keys of other families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import MOST_LAYERS

NORMS: Final = "_norms"
"""A key of our own: norms of a layer."""
_DEFAULT_MLP_RATIO: Final = 4


def _falcon(keys: ConfigKeys) -> dict[str, Any]:
    """Falcon's two generations: one KV head by default in the older, as stated in the newer."""
    is_new = keys.flag("new_decoder_architecture")
    is_parallel = is_new or keys.flag("parallel_attn", default=True)
    norms = keys.whole("num_ln_in_parallel_attn", default=2 if is_new else 1)
    values: dict[str, Any] = {NORMS: norms if is_parallel else 2, "parallel_attn": is_parallel}
    if not is_new and keys.flag("multi_query", default=True):
        values |= {"num_kv_heads": 1, "n_head_kv": None}
    return values


def _bigcode(keys: ConfigKeys) -> dict[str, Any]:
    return {"num_key_value_heads": 1 if keys.flag("multi_query", default=True) else None}


def _dbrx(keys: ConfigKeys) -> dict[str, Any]:
    """DBRX's sizes of attention and experts, which lie in nested configurations."""
    attention, experts = keys.nested("attn_config"), keys.nested("ffn_config")
    own = ("moe_num_experts", "moe_top_k", "ffn_hidden_size")
    return {
        "kv_n_heads": attention.config.get("kv_n_heads", 1),
        **{name: experts.config.get(name) for name in own},
    }


def _mpt(keys: ConfigKeys) -> dict[str, Any]:
    ratio = keys.whole("expansion_ratio", default=_DEFAULT_MLP_RATIO)
    return {"ffn_hidden_size": ratio * keys.whole("d_model")}


def _neo(keys: ConfigKeys) -> dict[str, Any]:
    """GPT-Neo's kinds of layers, lists with repeats: [[["global", "local"], 12]]."""
    kinds: list[str] = []
    for entry in keys.items("attention_types", list, "[kinds, times]"):
        match entry:
            case [list() as named, int() as times] if 0 < times <= MOST_LAYERS:
                kinds += [str(kind) for kind in named] * times
            case _:
                raise keys.refuse("attention_types", entry, "[kinds, times]", "kinds, how often")
    words = {"global": "full_attention", "local": "local_attention"}
    return {"layer_types": [words.get(kind, kind) for kind in kinds] or None}


DIALECTS: Final[dict[str, Callable[[ConfigKeys], dict[str, Any]]]] = {
    "falcon": _falcon,
    "gpt_bigcode": _bigcode,
    "dbrx": _dbrx,
    "mpt": _mpt,
    "gpt_neo": _neo,
}
"""Functions that give the replacing keys, by ``model_type``."""


def plain_keys(keys: ConfigKeys, model_type: str) -> ConfigKeys:
    """The configuration in the usual keys."""
    dialect = DIALECTS.get(model_type)
    if dialect is None:
        return keys
    return type(keys)({**keys.config, **dialect(keys)}, keys.file, keys.inside)

"""Decoders: Llama, Mistral, Qwen, Mixtral and what is built like them."""

from __future__ import annotations

from trnsim.system.workload.architecture import Attention, Experts, Layer, Mlp, Tower
from trnsim.system.workload.keys import Keys

NAMES = ("llama", "mistral", "mixtral", "qwen2", "qwen3")


def towers(keys: Keys, model_type: str) -> tuple[Tower, ...]:
    """The one tower of a decoder.

    Raises:
        BadInput: for sizes that do not go together.
    """
    hidden, vocabulary = keys.whole("hidden_size"), keys.whole("vocab_size")
    layers = keys.whole("num_hidden_layers")
    attention = attention_of(keys, hidden, model_type)
    mlp = Mlp(keys.whole("intermediate_size"))
    count = keys.whole("num_local_experts", "num_experts", default=1)
    chosen = experts_of(keys, count, mlp) if count > 1 else mlp
    layer = Layer(layers, (attention,), chosen, norms=2 * hidden)
    return (
        Tower(
            "decoder",
            hidden,
            (layer,),
            looked_up=vocabulary,
            final=hidden,
            outputs=vocabulary,
            is_tied=keys.flag("tie_word_embeddings"),
        ),
    )


def attention_of(keys: Keys, hidden: int, model_type: str) -> Attention:
    """Grouped-query attention.

    Raises:
        BadInput: where heads do not divide the hidden size, or KV heads not the heads.
    """
    heads = keys.whole("num_attention_heads")
    kv_heads = keys.whole("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise keys.refuse(
            "num_key_value_heads",
            kv_heads,
            ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0),
            f"each serves an equal part of {heads} heads",
        )
    head_dim = keys.whole("head_dim", default=0 if hidden % heads else hidden // heads)
    if not head_dim:
        raise keys.refuse("hidden_size", hidden, f"multiples of {heads} heads", "no head_dim given")
    has_biases = model_type == "qwen2" or keys.flag("attention_bias")
    biases = (heads + 2 * kv_heads) * head_dim if has_biases else 0
    window = (
        keys.whole("sliding_window", default=0)
        if keys.flag("use_sliding_window", default=True)
        else 0
    )
    norms = 2 * head_dim if model_type == "qwen3" else 0
    return Attention(heads, kv_heads, head_dim, head_dim, window, biases=biases, norms=norms)


def experts_of(keys: Keys, count: int, expert: Mlp) -> Experts:
    """Experts that are all alike.

    Raises:
        BadInput: where a token takes more experts than there are.
    """
    per_token = keys.whole("num_experts_per_tok")
    if per_token > count:
        raise keys.refuse("num_experts_per_tok", per_token, f"1 to {count}", "there are no more")
    return Experts(count, per_token, expert)

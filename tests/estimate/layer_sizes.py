"""An architecture whose layers tests price."""

from trnsim.workload.config import from_config
from trnsim.workload.operators import WHOLE
from trnsim.workload.passes import summaries

LLAMA = from_config(
    {
        "model_type": "llama",
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
    "llama.json",
)


def layer(model, given, split=WHOLE):
    """One of the equal layers of a model in a pass."""
    return next(one for one in summaries(model, given, split) if one.name == "layer")

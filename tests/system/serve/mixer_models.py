"""Models whose layers are mixers with states."""

from trnsim.workload.config import from_config

MAMBA_2 = from_config(
    {
        "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50288,
        "num_heads": 80, "head_dim": 64, "state_size": 128, "n_groups": 1,
    },
    "mamba2.json",
)  # fmt: skip

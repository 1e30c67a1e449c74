"""Published training rows as layouts, against the median over releases of the SDK."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from cases import architecture

HERE = Path(__file__).parent
RANKS = 32
"""NeuronCores of a trn1.32xlarge."""
MODELS = {
    "BERT-Large Ph1": ("bert-large-pretraining", 128),
    "BERT-Large Ph2": ("bert-large-pretraining", 512),
    "ViT-Base": ("google/vit-base-patch16-224", 0),
    "CLIP-Base": ("openai/clip-vit-base-patch32", 0),
    "GPT3-6.7B": ("GPT3-6.7B", 2048),
    "GPT3-23B": ("GPT3-23B", 2048),
    "GPT3-46B": ("GPT3-46B", 2048),
    "Llama2-7B": ("Llama-2-7b", 4096),
    "Llama2-13B": ("Llama-2-13b", 4096),
    "Llama-3.1-8B": ("Llama-3-8B", 8192),
}
"""By the name in the tables: the configuration, and tokens of a sequence (of an image, its own)."""
CONTRADICTED = "figures a factor of {:.1f} apart are printed for this one configuration"
MOST_SPREAD = 0.9
"""(largest - smallest) / smallest over releases above which a median means nothing."""
FIRST = "first printing; the topology was corrected in the next release"
IN_FP32 = "FP32: what the compiler casts is not stated, and releases differ by a factor of two"


@dataclass
class Training:
    """A configuration and what it was published to reach.

    Attributes:
        row: the row of train_history.json.
        config: the name of the configuration.
        model: the architecture; None where it cannot be read.
        tensor: ranks of a layer.
        pipeline: stages.
        data: replicas, as the nodes say.
        sequence: tokens.
        published_s: seconds of a step, at the median over releases.
        flags: what was repaired.
        why: why it is not answered.
    """

    row: dict
    config: str
    model: object
    tensor: int
    pipeline: int
    data: int
    sequence: int
    published_s: float
    flags: list
    why: str = ""

    @property
    def id(self):
        """Model, nodes, layout and dtype."""
        one = self.row
        layout = f"TP{self.tensor} PP{self.pipeline} DP{self.data}"
        batch = f"micro {one['microbatch']} global {one['global_batch']}"
        return f"{one['model']} x {one['nodes']}, {layout}, {batch}, {one['optimizer']}".rstrip(
            ", "
        )

    @property
    def architecture(self):
        """Width and depth: what is left out together."""
        if self.model is None:
            return self.row["model"]
        return f"{self.model.decoder.hidden} x {self.model.decoder.depth}"

    @property
    def recompute(self):
        """What the launch script of the row computes again.

        Llamas summed in BF16 with stochastic rounding are neuronx-nemo-megatron's, whose
        test_llama.sh says ``activations_checkpoint_granularity=full``; those with an optimizer in
        FP32 are NeuronX Distributed's, which keeps all but what attention in one kernel does.
        """
        if self.tensor == 1:
            return "none"
        is_nemo = self.row["model"].startswith("Llama") and self.row["dtype"].endswith("+SR")
        return (self.row["shape"] or {}).get("recompute", "full" if is_nemo else "selective")

    def layout(self):
        """The layout of the planner."""
        from trnsim.system.train.layout import Layout  # noqa: PLC0415  only where one is asked for

        return Layout(
            tensor=self.tensor,
            pipeline=self.pipeline,
            data=self.data,
            zero=1 if self.tensor > 1 else 0,
            recompute=self.recompute,
            is_sequence=self.tensor > 1,
            micro_batch=int(self.row["microbatch"]),
            global_batch=int(self.row["global_batch"]),
            sequence=self.sequence,
        )


def trainings():
    """All configurations of train_history.json."""
    rows = json.loads((HERE / "train_history.json").read_text(encoding="utf-8"))
    return [_training(row) for row in rows]


def _training(row):
    name, sequence = MODELS.get(row["model"], (row["model"], 0))
    found = architecture(name)
    sizes = {"TP": 1, "PP": 1}
    sizes |= {key: int(size) for key, size in re.findall(r'"(\w+)": (\d+)', row["topology"])}
    ranks = RANKS * row["nodes"]
    data = ranks // (sizes["TP"] * sizes["PP"])
    flags = list(row["flags"])
    if "DP" in sizes and sizes["DP"] != data:
        flags.append(f"DP of {sizes['DP']} does not fill {row['nodes']} nodes; {data} taken")
    published_s = int(row["global_batch"]) / row["median"]
    model = None if isinstance(found, str) else found
    case = Training(row, name, model, sizes["TP"], sizes["PP"], data, sequence, published_s, flags)
    if model is None:
        case.why = found
    elif row["dtype"] == "FP32":
        case.why = IN_FP32
    elif FIRST in row["flags"]:
        case.why = FIRST
    elif row["spread"] > MOST_SPREAD:
        case.why = CONTRADICTED.format(1 + row["spread"])
    elif not sequence:
        case.sequence = model.decoder.tokens or 77
    return case

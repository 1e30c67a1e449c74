"""Published times of halves of layers on Trainium2: what each row computes, and its `PartSummary`.

The rows are those of nki-library's kernels in bench/accuracy/rows.json: limits of its regression
tests, which carry about 15 % noise. NxD Inference runs these kernels in the layers of a model.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from trnsim.estimate.choice import layer_times
from trnsim.place.machine import machine
from trnsim.workload.operators import Cache, Elementwise, Pass, Phase, Product, bytes_of
from trnsim.workload.summary import PartSummary

ROWS = Path(__file__).parents[1] / "accuracy" / "rows.json"
DECODE, PROMPT, ATTENTION = "decode halves", "prompt MLPs", "prompt attentions"
BITS = 16
KINDS = {"mlptkg": DECODE, "qkvtkg": DECODE, "mlpcte": PROMPT, "attncte": ATTENTION}
"""By the first word of a row's family, what its errors are counted with."""
FAMILIES = {"mlptkg": "decode MLP", "qkvtkg": "decode QKV", "mlpcte": "prompt MLP"}
ALONE = ("attncte", "attncte-vnc", "attncte-gqa")
"""Attentions of a prompt that has no prefix, by a rank alone."""
ACTS = {"SiLU": "silu", "GELU": "gelu", "GELU_Tanh_Approx": "tanh"}
NORMS = {"RMS_NORM": "rms", "LAYER_NORM": "layer", "NO_NORM": ""}
BIASES = ("gate_bias", "up_bias", "down_bias", "qkv_bias")
QUANTISED = {"NONE": "", "ROW": ", FP8 by rows", "STATIC": ", FP8 static"}


@dataclass(frozen=True)
class Half:
    """What a row computes, as far as either method sees it.

    Attributes:
        kind: `DECODE`, `PROMPT` or `ATTENTION`.
        lnc: NeuronCores.
        batch: sequences; of an attention 1.
        tokens: new tokens of each, which are an attention's queries.
        hidden: elements of a token; of an attention, those of a head.
        inner: columns of the MLP or of the fused QKV product; of an attention, keys.
        act: "silu", "gelu" or "tanh"; "" without an activation.
        is_gated: whether the MLP has a gate.
        norm: "rms", "layer" or "".
        is_added: whether a residual is added before the norm.
        is_biased: whether products add biases.
        weight_bits: bits of a weight.
        heads: query heads of an attention.
        shared: its heads of keys and values.
        is_causal: whether queries see earlier keys alone.
    """

    kind: str
    lnc: int
    batch: int
    tokens: int
    hidden: int
    inner: int
    act: str = ""
    is_gated: bool = False
    norm: str = ""
    is_added: bool = False
    is_biased: bool = False
    weight_bits: int = BITS
    heads: int = 0
    shared: int = 0
    is_causal: bool = False

    @property
    def group(self):
        """What is left out together: hidden x intermediate, or queries x keys."""
        if self.kind == ATTENTION:
            return f"{self.tokens} x {self.inner}"
        return f"{self.hidden} x {self.inner}"

    @property
    def given(self):
        """The pass that it is of."""
        phase = Phase.DECODE if self.kind == DECODE else Phase.PREFILL
        return Pass(phase, self.batch, self.tokens)

    @property
    def seen(self):
        """Scores that no mask discards."""
        scores = self.heads * self.tokens * self.inner
        return scores * (self.tokens + 1) / (2 * self.tokens) if self.is_causal else scores

    @cached_property
    def block(self):
        """One half as the few constants see it, as `trnsim.workload.passes` makes layers."""
        if self.kind == ATTENTION:
            return self._attention()
        rows, bits = self.batch * self.tokens, self.weight_bits
        # A norm and a residual read and write each element.
        around = 2 * rows * self.hidden * (bool(self.norm) + self.is_added)
        norm = Elementwise("norm", around, bytes_of(self.hidden, BITS) if self.norm else 0.0)
        if not self.act:
            product = Product("query, key, value", rows, self.hidden, self.inner, 1, bits)
            return PartSummary("layer", 1, (product,), (norm, Elementwise("softmax", 0.0)))
        ups = 1 + self.is_gated
        products = (
            Product("up", rows, self.hidden, ups * self.inner, 1, bits),
            Product("down", rows, self.inner, self.hidden, 1, bits),
        )
        between = Elementwise("activation", 2 * ups * rows * self.inner)
        return PartSummary("layer", 1, products, (norm, between))

    def _attention(self):
        rows, part = self.tokens * self.heads / self.shared, self.seen / self.scores
        products = (
            Product("scores", rows, self.hidden, self.inner, self.shared, causal=part),
            Product("values", rows, self.inner, self.hidden, self.shared, causal=part),
        )
        written = bytes_of(2 * self.shared * self.inner * self.hidden, BITS)
        return PartSummary(
            "layer",
            1,
            products,
            (Elementwise("softmax", 2 * self.seen),),
            cache=Cache(0.0, written),
        )

    @property
    def scores(self):
        """Scores of queries and keys, masked ones too."""
        return self.heads * self.tokens * self.inner

    @property
    def few_s(self):
        """The answer of the few constants as they are in the package."""
        times = layer_times(machine("trn2", lnc=self.lnc), self.given.phase)
        return times.forward(self.block, self.given).time_s


@dataclass
class Published:
    """A half with its published time: the median of the rows that compute the same.

    Attributes:
        half: what is computed.
        family: of rows, as tables name it.
        ids: of its rows.
        published_s: the median of their times.
        least_s: the least of them.
        most_s: the longest of them.
        program_s: the compiled program's time without its launch; None until it is known.
        launch_s: the launch.
        why: why there is no program.
    """

    half: Half
    family: str
    ids: tuple
    published_s: float
    least_s: float
    most_s: float
    program_s: float | None = None
    launch_s: float = 0.0
    why: str = ""


def published():
    """(halves with their times, rows that cannot be expressed and why)."""
    found, left = {}, {}
    for row in json.loads(ROWS.read_text(encoding="utf-8")):
        if not row["id"].startswith("nkl-") or row["family"].split("-")[0] not in KINDS:
            continue
        why = reason(row)
        if why:
            left[row["id"]] = why
        else:
            found.setdefault((family_of(row), half_of(row)), []).append(row)
    made = []
    for (family, half), rows in found.items():
        values = [row["value"] / 1e6 for row in rows]
        ids = tuple(row["id"] for row in rows)
        made.append(Published(half, family, ids, median(values), min(values), max(values)))
    return made, left


def reason(row):
    """Why a row cannot be expressed, or is no measurement; empty where it can."""
    shapes = row["shapes"]
    if row["family"].startswith("attncte") and row["family"] not in ALONE:
        return "keys of a prefix, or of other ranks"
    if shapes.get("prior_len", "None") != "None":
        return "keys of a prefix, or of other ranks"
    if shapes.get("sliding_window", "0") != "0":
        return "a window of keys: the few constants count scores of all keys"
    if row["precision"] == "hand-relaxed":
        return "a limit that was relaxed by hand: no measurement"
    return ""


def quantised(row):
    """How its weights are kept: "NONE", "ROW" or "STATIC"."""
    shapes = row["shapes"]
    return shapes.get("quant_type", shapes.get("quantization_type", "NONE")).split(".")[-1]


def family_of(row):
    """What a row is counted with in tables."""
    first = row["family"].split("-")[0]
    if first in FAMILIES:
        return FAMILIES[first] + QUANTISED[quantised(row)]
    return "prompt attention" + (", shared keys" if row["family"].endswith("-gqa") else "")


def half_of(row):
    """What a row computes.

    Inputs are bfloat16: rows of float32 and float16 take what bfloat16 takes at the same shape
    (56 us and 56 us at 577 x 577). A sink, layouts, stored sums and scales are left out.
    """
    kind, shapes = KINDS[row["family"].split("-")[0]], row["shapes"]
    cores = shapes.get("vnc_degree", shapes.get("lnc_degree", "1"))
    if kind == ATTENTION:
        heads = number(shapes["bs"])
        queries, keys = number(shapes["seqlen_q"]), number(shapes["seqlen_kv"])
        half = Half(kind, number(cores), 1, queries, number(shapes["d"]), keys)
        is_causal, shared = shapes["causal_mask"] == "True", number(shapes.get("bs_kv", str(heads)))
        return replace(half, heads=heads, shared=shared, is_causal=is_causal)
    inner = shapes.get("intermediate", shapes.get("fused_qkv_dim"))
    hidden = shapes.get("hidden", shapes.get("hidden_dim"))
    sizes = (number(text) for text in (cores, shapes["batch"], shapes["seqlen"], hidden, inner))
    is_mlp = "act_fn_type" in shapes
    skips = shapes.get("skip_gate", shapes.get("skip_gate_proj", "False"))
    return Half(
        kind,
        *sizes,
        act=ACTS[shapes["act_fn_type"].split(".")[-1]] if is_mlp else "",
        is_gated=is_mlp and skips == "False",
        norm=NORMS[shapes["norm_type"].split(".")[-1]],
        is_added=shapes["fused_add"] == "True",
        is_biased=any(shapes.get(name) == "True" for name in BIASES),
        weight_bits=BITS if quantised(row) == "NONE" else 8,
    )


def number(text):
    """A number of the table's words: "8192", "16 * 1024 + 16", "ceilalign(896, 128)".

    Raises:
        ValueError: for any other word.
    """
    if text.startswith("ceilalign(") and text.endswith(")"):
        least, multiple = (int(word) for word in text[len("ceilalign(") : -1].split(","))
        return math.ceil(least / multiple) * multiple
    return sum(math.prod(int(word) for word in part.split("*")) for part in text.split("+"))

"""Server settings of a user; each attribute has an option of ``trnsim plan serve``."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final

from trnsim.errors import BadInput
from trnsim.estimate.ported import Port
from trnsim.formatting import enumerated
from trnsim.system.serve.constants import UTILIZATION
from trnsim.workload.architecture import Architecture

QUANTIZATIONS: Final[dict[str, tuple[int, str]]] = {
    "int8": (8, "both"),
    "fp8": (8, "both"),
    "mxfp8": (8, "Neuron"),
    "mxfp4": (4, "both"),
    "awq": (4, "GPU"),
    "gptq": (4, "GPU"),
}
"""Bits of a weight, and the platforms that support it. Source: aws-neuron-sdk, feature-guide.rst,
Quantization; vllm-neuron/docs/guides/reference-configuration.md; vLLM, Supported Hardware."""
KV_DTYPES: Final = {"auto": 0, "fp8": 8}
"""Bits of an element of keys and values; 0 for the model's own."""


@dataclass(frozen=True)
class ServerOptions:
    """A user's settings; None for a default, or for a value that a search chooses.

    Attributes:
        tensor: tensor parallel size: ranks that divide heads and columns among them.
        pipeline: pipeline stages; if they do not all fit on one instance they span several. By
            default one stage, or the fewest that hold the model.
        expert: expert parallel size: groups of `tensor` ranks that divide the experts among them.
        replicas: replicas (data parallel size), `prefill_replicas` included.
        prefill_replicas: replicas that only run prefills, for the others; 0 for none.
        instances: instances of the fleet.
        max_num_seqs: sequences that a replica decodes together at most.
        max_model_len: tokens of the longest sequence.
        max_num_batched_tokens: tokens of a step at most.
        prompts_at_once: prompts of a prefill step at most.
        block_tokens: tokens of a block of keys and values.
        utilization: the fraction of HBM that may be used.
        quantization: a key of `QUANTIZATIONS`.
        kv_dtype: a key of `KV_DTYPES`.
        has_prefix_cache: whether equal prefixes are computed once.
        is_chunked: whether steps mix decodes and chunks of prompts, on GPUs.
        draft_tokens: tokens drafted for a decode step of a sequence; 0 without speculation.
        acceptance: probability with which a drafted token is accepted.
        draft: the draft model; None for a draft head of one layer on the model itself (EAGLE).
        buckets: compiled lengths, in tokens; empty for the default.
        batches: compiled batches of decode steps; empty for the default.
        host_s: seconds of host time between two steps.
        imbalance: tokens of the busiest expert rank over the mean; None for even routing.
        port: tuning state of the model's port to AWS's chips, a `Port`.
    """

    tensor: int | None = None
    pipeline: int | None = None
    expert: int = 1
    replicas: int | None = None
    prefill_replicas: int = 0
    instances: int | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    prompts_at_once: int | None = None
    block_tokens: int | None = None
    utilization: float = float(UTILIZATION)
    quantization: str = ""
    kv_dtype: str = "auto"
    has_prefix_cache: bool = False
    is_chunked: bool = True
    draft_tokens: int = 0
    acceptance: float | None = None
    draft: Architecture | None = None
    buckets: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()
    host_s: float | None = None
    imbalance: float | None = None
    port: str = Port.TUNED

    @property
    def is_ported(self) -> bool:
        """True for an untuned port of the model."""
        return self.port == Port.AS_PORTED

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return self.pipeline or 1

    @property
    def served_draft(self) -> Architecture | None:
        """The draft model with the type of keys and values of the server; None without one.

        Source: vLLM, CacheConfig.cache_dtype, which is one of a server.
        """
        if self.draft is None:
            return None
        return replace(self.draft, kv_bits=KV_DTYPES[self.kv_dtype] or self.draft.kv_bits)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int):
                continue
            least_count = 0 if field.name in ("prefill_replicas", "draft_tokens") else 1
            if value < least_count:
                raise BadInput(
                    f"{FLAGS.get(field.name, field.name)} is {value}; legal: whole numbers from "
                    f"{least_count} on"
                )
        self._check_parts()

    def _check_parts(self) -> None:
        """Refuse numbers out of range, an unknown port state, speculation without acceptance.

        Raises:
            BadInput: names the option.
        """
        ranges = {
            "utilization": (self.utilization, 0.0, 1.0),
            "acceptance": (self.acceptance, 0.0, 1.0),
            "host_s": (self.host_s, 0.0, math.inf),
            "imbalance": (self.imbalance, 1.0, math.inf),
        }
        for name, (value, lower, upper) in ranges.items():
            if value is not None and not (lower <= value <= upper and math.isfinite(value)):
                upper_text = f" to {upper:g}" if math.isfinite(upper) else " on"
                raise BadInput(f"{FLAGS[name]} is {value}; legal: from {lower:g}{upper_text}")
        if self.port not in tuple(Port):
            raise BadInput(
                f"{FLAGS['port']} is {self.port!r}; legal: {enumerated(tuple(Port), 'or')}",
                fix=f"{FLAGS['port']} {Port.AS_PORTED} for a mixture of experts as its port is, "
                "or leave it out",
            )
        if self.draft_tokens and self.acceptance is None:
            raise BadInput(
                f"{self.draft_tokens} speculative tokens, and no rate at which they are accepted",
                fix="--speculative-acceptance 0.7, as measured with the draft and the text served",
            )


FLAGS: Final = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "expert": "--expert-parallel-size",
    "replicas": "--data-parallel-size",
    "prefill_replicas": "--prefill-replicas",
    "instances": "--instances",
    "max_num_seqs": "--max-num-seqs",
    "max_model_len": "--max-model-len",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "prompts_at_once": "--max-prefills",
    "block_tokens": "--block-size",
    "utilization": "--gpu-memory-utilization",
    "quantization": "--quantization",
    "kv_dtype": "--kv-cache-dtype",
    "draft_tokens": "--num-speculative-tokens",
    "acceptance": "--speculative-acceptance",
    "buckets": "--buckets",
    "batches": "--num-seqs-buckets",
    "host_s": "--host-time",
    "imbalance": "--expert-imbalance",
    "port": "--port-state",
}
"""The option of the command line for each attribute."""

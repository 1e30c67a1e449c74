"""``vllm serve`` commands of a deployment: vLLM on GPUs, vLLM-Neuron on AWS's chips.

Source: vllm-neuron/docs/guides/reference-configuration.md and features-guide.md;
design/vllm/disaggregated-inference.md; vLLM's documentation, Engine Arguments.
"""

from __future__ import annotations

import shlex
from typing import Final

from trnsim.document.values import json_line
from trnsim.errors import NotModelled
from trnsim.system.serve.engine import ReplicaRole
from trnsim.system.serve.server import Deployment

_LENGTH_TILE: Final = 128
"""Tokens of which the lengths of decode programs are multiples. Source:
reference-configuration.md."""
_LONG_LENGTH_EXPORT: Final = "export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
"""Allows a --max-model-len beyond the configuration's positions. Source: vLLM's error without it,
https://huggingface.co/mistralai/Ministral-8B-Instruct-2410/discussions/10."""
_KV_ROLES: Final = {ReplicaRole.PREFILL: "kv_producer", ReplicaRole.DECODE: "kv_consumer"}
_CONNECTORS: Final = {True: "NeuronNixlConnector", False: "NixlConnector"}
_STORED_QUANTIZATIONS: Final = {True: ("int8", "fp8"), False: ("int8",)}
"""Quantizations without an option, by whether the machine is Neuron: those of a checkpoint.

Source for GPUs: vLLM's documentation, INT8 W8A8: a checkpoint that LLM Compressor has quantized."""


def vllm(deployment: Deployment, model: str) -> str:
    """The commands that start every replica; `model` is the name or path of the checkpoint.

    Raises:
        NotModelled: a layout that the server documents no option for.
    """
    options, machine = deployment.options, deployment.machine
    if machine.is_neuron and options.stages > 1:
        raise NotModelled(
            f"vLLM-Neuron documents no option for {options.stages} pipeline stages",
            fix="more --tensor-parallel-size on a larger instance, or --quantization",
        )
    prefill = options.prefill_replicas
    if not prefill:
        return _command(deployment, model, deployment.replicas, ReplicaRole.BOTH)
    return "\n\n".join(
        (
            f"# {prefill} for prompts\n"
            + _command(deployment, model, prefill, ReplicaRole.PREFILL),
            f"# {deployment.replicas - prefill} that decode\n"
            + _command(deployment, model, deployment.replicas - prefill, ReplicaRole.DECODE),
        )
    )


def _command(deployment: Deployment, model: str, replicas: int, role: ReplicaRole) -> str:
    """The command for `replicas` replicas of a role, after comments for what has no option."""
    options, machine = deployment.options, deployment.machine
    lines = _remarks(deployment)
    words = [
        f"vllm serve {shlex.quote(model)}",
        *_size_options(deployment, replicas),
        *_memory_options(deployment),
    ]
    if options.draft_tokens:
        words.append(f"--speculative-config {_quoted(_speculation(deployment))}")
    if role is not ReplicaRole.BOTH:
        connector = {"kv_connector": _CONNECTORS[machine.is_neuron], "kv_role": _KV_ROLES[role]}
        words.append(f"--kv-transfer-config {_quoted(connector)}")
    if machine.is_neuron:
        words.append(
            f"--additional-config {_quoted({'neuron_config': _neuron_config(deployment)})}"
        )
    return "\n".join([*lines, " \\\n    ".join(words)])


def _remarks(deployment: Deployment) -> list[str]:
    """Comments and exports that precede the command."""
    options, machine = deployment.options, deployment.machine
    lines = []
    if machine.is_neuron:
        lines.append(f"export NEURON_LOGICAL_NC_CONFIG={machine.lnc}")
    if options.quantization in _STORED_QUANTIZATIONS[machine.is_neuron]:
        name = options.quantization.upper()
        lines.append(
            f"# {name} weights are those of a checkpoint whose quantization_config has them"
        )
    positions = deployment.model.max_positions
    if positions and deployment.engine.max_model_len > positions:
        lines.append(
            f"{_LONG_LENGTH_EXPORT} # beyond the {positions:,} positions of the model's training"
        )
    if deployment.instances > 1:
        lines.append(f"# on {deployment.instances} x {machine.instance.name}")
    return lines


def _size_options(deployment: Deployment, replicas: int) -> list[str]:
    """Options of parallelism and of step sizes."""
    options, engine = deployment.options, deployment.engine
    words = [f"--tensor-parallel-size {options.tensor}"]
    if options.stages > 1:
        words.append(f"--pipeline-parallel-size {options.stages}")
    if replicas * options.expert > 1:
        words.append(f"--data-parallel-size {replicas * options.expert}")
    if options.expert > 1:
        words.append("--enable-expert-parallel")
    words += [
        f"--max-model-len {engine.max_model_len}",
        f"--max-num-seqs {engine.max_num_seqs}",
        f"--max-num-batched-tokens {_step_tokens(deployment)}",
        f"--block-size {engine.block_tokens}",
    ]
    return words


def _step_tokens(deployment: Deployment) -> int:
    """Tokens of a step: on Neuron at most those of one prompt, as it takes one prompt at a time."""
    engine = deployment.engine
    if deployment.machine.is_neuron:
        return min(engine.max_num_batched_tokens, engine.max_model_len)
    return engine.max_num_batched_tokens


def _memory_options(deployment: Deployment) -> list[str]:
    """Options of memory, quantization and caches."""
    options, machine = deployment.options, deployment.machine
    prefix = "" if options.has_prefix_cache else "no-"
    words = [
        f"--gpu-memory-utilization {options.utilization:g}",
        f"--{prefix}enable-prefix-caching",
    ]
    if not machine.is_neuron:
        chunking_prefix = "" if options.is_chunked else "no-"
        words.append(f"--{chunking_prefix}enable-chunked-prefill")
        if options.quantization and options.quantization not in _STORED_QUANTIZATIONS[False]:
            words.append(f"--quantization {options.quantization}")
    if options.kv_dtype != "auto":
        words.append(f"--kv-cache-dtype {options.kv_dtype}")
    return words


def _speculation(deployment: Deployment) -> dict[str, object]:
    options = deployment.options
    if options.draft is None:
        draft: dict[str, object] = {"method": "eagle3", "model": "<an EAGLE3 head of the model>"}
    else:
        draft = {"model": options.draft.name}
    return draft | {"num_speculative_tokens": options.draft_tokens}


def _neuron_config(deployment: Deployment) -> dict[str, object]:
    """Options of vLLM on Neuron, by name: the shapes for which it compiles programs."""
    engine, options = deployment.engine, deployment.options
    step_tokens = _step_tokens(deployment)
    lengths = [
        size for size in engine.buckets if size < engine.max_model_len and size % _LENGTH_TILE == 0
    ]
    config: dict[str, object] = {
        "num_batched_tokens_buckets": [
            *(size for size in engine.buckets if size < step_tokens),
            step_tokens,
        ],
        "num_seqs_buckets": list(engine.batches),
        "decode_context_length_buckets": lengths or None,
        "on_device_sampling_config": {"all_greedy": True},
    }
    if options.quantization.startswith("mx"):
        config["quantization"] = options.quantization
    return {name: value for name, value in config.items() if value is not None}


def _quoted(value: object) -> str:
    return shlex.quote(json_line(value))

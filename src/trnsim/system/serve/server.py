"""Deployment: replicas of a model on instances, from a user's server options and a machine.

Options that are not set get the defaults of the serving software: NxD Inference and vLLM-Neuron on
AWS's chips, vLLM on GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trnsim.errors import BadInput, NotModelled
from trnsim.estimate.choice import bytes_per_s, layer_times
from trnsim.estimate.ported import ported_times
from trnsim.estimate.times import LayerTimes
from trnsim.formatting import counted
from trnsim.place.machine import Machine
from trnsim.system.serve.constants import HostTimes, host_times, user_host_times
from trnsim.system.serve.engine import (
    FIRST_BUCKET,
    Engine,
    ReplicaRole,
    checked_buckets,
    powers_of_two,
)
from trnsim.system.serve.memory import RankMemory, rank_memory
from trnsim.system.serve.options import KV_DTYPES, QUANTIZATIONS, ServerOptions
from trnsim.system.serve.step import ReplicaSteps, Speculation
from trnsim.system.serve.tensor_degrees import heads_of, legal_tensor_sizes, tensor_degrees
from trnsim.workload.architecture import Architecture
from trnsim.workload.matrix_bits import without_own_bits
from trnsim.workload.operators import Split

_BLOCK_TOKENS: Final = {True: 32, False: 16}
"""Tokens of a KV block, by whether the machine is Neuron: the defaults of vLLM-Neuron and vLLM."""
_GPU_SEQUENCES: Final = 256
"""Default of vLLM's --max-num-seqs."""
_GPU_TOKENS: Final = ((70 * 2**30, 8192), (0, 2048))
"""Default of vLLM's --max-num-batched-tokens for ``vllm serve``: (least bytes of a GPU, tokens)."""
_QUANTIZED_ACTIVATIONS: Final = ("fp8", "int8")
"""Quantizations that on GPUs also quantize activations (vLLM: FP8 W8A8, INT8 W8A8)."""
_PROMPTS_A_STEP: Final = 1
"""Prompts of a prefill step. Source: vllm-neuron/docs/design/vllm/neuron-scheduler.md, Only 1
Prefill Per Batch. NxD Inference's static batches take more: --max-prefills."""


@dataclass(frozen=True, eq=False)
class Deployment:
    """Equal replicas of a model on instances.

    Attributes:
        model: the architecture, quantized as it is served.
        machine: an instance, with the devices that serve.
        options: the user's settings, with the values that the search chose.
        engine: scheduling rules of a replica; `engines` gives the rules of each replica's role.
        steps: estimates of a replica's steps.
        memory: use of a rank's device memory.
        replicas: number of replicas, prefill replicas included.
        instances: number of instances.
    """

    model: Architecture
    machine: Machine
    options: ServerOptions
    engine: Engine
    steps: ReplicaSteps
    memory: RankMemory
    replicas: int
    instances: int

    @property
    def ranks(self) -> int:
        """Number of ranks of a replica."""
        return _ranks(self.options)

    @property
    def ranks_used(self) -> int:
        """Number of ranks of all replicas."""
        return self.ranks * self.replicas

    @property
    def size_text(self) -> str:
        """Its replicas and their ranks in words: ``4 replicas of 8 ranks``."""
        return _size_text(self.replicas, self.ranks)

    @property
    def decode_replicas(self) -> range:
        """Indices of the replicas that decode; prefill replicas come before them."""
        return range(self.options.prefill_replicas, self.replicas)

    def engines(self) -> list[Engine]:
        """The engine of each replica."""
        prefill = self.options.prefill_replicas
        if not prefill:
            return [self.engine] * self.replicas
        prompts = replace(self.engine, role=ReplicaRole.PREFILL)
        decodes = replace(self.engine, role=ReplicaRole.DECODE)
        return [prompts] * prefill + [decodes] * (self.replicas - prefill)


def served_model(model: Architecture, options: ServerOptions, machine: Machine) -> Architecture:
    """The architecture with the quantization of `options`.

    Raises:
        BadInput: for a quantization, or a type of keys and values, that the serving software does
            not support on `machine`.
        NotModelled: for a model that does not generate tokens.
    """
    check_generating(model)
    platform = "Neuron" if machine.is_neuron else "GPU"
    legal = [
        name for name, (_, platforms) in QUANTIZATIONS.items() if platforms in ("both", platform)
    ]
    if options.quantization and options.quantization not in legal:
        raise BadInput(
            f"--quantization is {options.quantization!r} on {machine.name}; legal: "
            f"{', '.join(legal)}",
            fix="leave it out to serve the weights as the checkpoint has them",
        )
    if options.kv_dtype not in KV_DTYPES:
        raise BadInput(f"--kv-cache-dtype is {options.kv_dtype!r}; legal: {', '.join(KV_DTYPES)}")
    kv_bits = KV_DTYPES[options.kv_dtype] or model.kv_bits
    if not options.quantization:
        return replace(model, kv_bits=kv_bits)
    bits = QUANTIZATIONS[options.quantization][0]
    is_quantized = not machine.is_neuron and options.quantization in _QUANTIZED_ACTIVATIONS
    product_bits = bits if is_quantized else model.product_bits
    return replace(
        without_own_bits(model),
        weight_bits=bits,
        mlp_bits=bits,
        product_bits=product_bits,
        kv_bits=kv_bits,
    )


def check_generating(model: Architecture) -> None:
    """Refuse a model that does not generate tokens.

    Raises:
        NotModelled: for an encoder, a classifier or a model of images.
    """
    if not model.is_generating:
        raise NotModelled(
            f"{model.name} ({model.model_type}) makes no tokens one after another",
            fix="trnsim plan infer for encoders, classifiers and images",
        )


def check_length(model: Architecture, tokens: int) -> None:
    """Refuse sequences longer than the model's table of positions.

    Raises:
        BadInput: names both lengths.
    """
    limit = model.length_limit
    if limit and tokens > limit:
        raise BadInput(
            f"--max-model-len of {tokens:,} tokens; {model.name} has a table of {limit:,} "
            f"positions ({model.positions_key})",
            fix=f"--max-model-len {limit}, and requests no longer than that",
        )


def deploy(
    model: Architecture,
    machine: Machine,
    options: ServerOptions,
    times: LayerTimes | None = None,
) -> Deployment:
    """The deployment of `options`, in which `tensor`, `max_num_seqs` and `max_model_len` are set.

    `times` are the times of layers, the project's own by default.

    Raises:
        BadInput: for an illegal option.
        OutOfMemory: if the model does not fit; lists the bytes of each part.
    """
    model = served_model(model, options, machine)
    tensor, sequences, longest = options.tensor, options.max_num_seqs, options.max_model_len
    if tensor is None or sequences is None or longest is None:
        raise BadInput("tensor ranks, sequences and length of a deployment have to be set")
    check_length(model, longest)
    _check_platform(machine, options)
    _check_port(model, machine, options)
    check_split(model, machine, options)
    split = Split(tensor=tensor, expert=options.expert)
    limits = _prefill_limits(machine, options, sequences, longest)
    step_tokens = min(limits.tokens, longest * limits.prompts)
    memory = rank_memory(model, machine.memory_bytes, options, split, step_tokens)
    slots = sequences if machine.is_neuron else 1
    memory.check(slots, machine.rank_name, model.name, running_sequences=sequences)
    block = options.block_tokens or _BLOCK_TOKENS[machine.is_neuron]
    engine = Engine(
        is_compiled=machine.is_neuron,
        max_num_seqs=sequences,
        max_model_len=longest,
        max_num_batched_tokens=limits.tokens,
        prompts_at_once=limits.prompts,
        buckets=_buckets(options, longest),
        batches=_batches(options, sequences),
        block_tokens=block,
        blocks=memory.blocks(block, sequences),
        has_prefix_cache=options.has_prefix_cache,
        is_chunked=options.is_chunked,
        draft_tokens=options.draft_tokens,
        acceptance=options.acceptance or 0.0,
        is_alternating=options.is_ported,  # optimum-neuron, vllm/runner.py: decodes, then prompts
    )
    layers = times or layer_times(machine)
    if options.is_ported:
        layers = ported_times(layers, model, split, bytes_per_s(machine))
    steps = ReplicaSteps(
        model,
        machine,
        split,
        options.stages,
        layers,
        _host_times(machine, options),
        Speculation(options.draft_tokens, options.served_draft),
        options.imbalance or 0.0,
    )
    replicas, instances = fleet(machine, options)
    return Deployment(model, machine, options, engine, steps, memory, replicas, instances)


def _host_times(machine: Machine, options: ServerOptions) -> HostTimes:
    """Host times: the user's if stated, otherwise the defaults of the serving software."""
    if options.host_s is not None:
        return user_host_times(options.host_s)
    return host_times(machine, is_ported=options.is_ported)


def _ranks(options: ServerOptions) -> int:
    return (options.tensor or 1) * options.expert * options.stages


def _size_text(replicas: int, ranks: int) -> str:
    return f"{counted(replicas, 'replica')} of {counted(ranks, 'rank')}"


def fleet(machine: Machine, options: ServerOptions) -> tuple[int, int]:
    """Numbers of replicas and of instances.

    An unset number of instances is the fewest that hold the replicas; an unset number of replicas
    is as many as fit on the instances.

    Raises:
        BadInput: for more replicas than fit, no replica left to decode, or no EFA between replicas
            on several instances.
    """
    stage_ranks = (options.tensor or 1) * options.expert
    instance_replicas = machine.ranks // _ranks(
        options
    )  # replicas of an instance; 0 if one spans several
    span = -(-options.stages // max(machine.ranks // stage_ranks, 1))  # instances of a replica
    replica_count = 1 if options.replicas is None else options.replicas
    count = options.instances or (
        -(-replica_count // instance_replicas) if instance_replicas else replica_count * span
    )
    most_replicas = count * instance_replicas if instance_replicas else count // span
    replicas = most_replicas if options.replicas is None else options.replicas
    if replicas > most_replicas or not replicas:
        raise BadInput(
            f"{_size_text(replicas or 1, _ranks(options))} on {count} x "
            f"{machine.instance.name}; {most_replicas} fit, as an instance has {machine.ranks} "
            "ranks",
            fix="more --instances, or fewer replicas or ranks",
        )
    if options.prefill_replicas >= replicas:
        raise BadInput(
            f"--prefill-replicas is {options.prefill_replicas} of {replicas} replicas; legal: 0 to "
            f"{replicas - 1}, as one at least decodes",
            fix="more --data-parallel-size, or fewer ranks a replica",
        )
    if options.prefill_replicas and count > 1 and not machine.instance.efa_bytes_per_s:
        raise BadInput(
            f"keys and values between {count} x {machine.instance.name}, which has no EFA",
            fix="use one instance, or a type with EFA",
        )
    return replicas, count


def check_split(model: Architecture, machine: Machine, options: ServerOptions) -> None:
    """Refuse parallel sizes for which the machine lacks ranks, or which the model cannot use.

    Raises:
        BadInput: names the option and the legal values.
    """
    tensor = options.tensor or 1
    if tensor > machine.ranks:
        raise BadInput(
            f"--tensor-parallel-size of {tensor} on {_ranks_of(machine)}; legal: 1 to "
            f"{machine.ranks}",
            fix="--pipeline-parallel-size spreads layers over several instances",
        )
    if machine.is_neuron and tensor not in tensor_degrees(machine):
        legal = [size for size in tensor_degrees(machine) if size <= heads_of(model)]
        raise BadInput(
            f"--tensor-parallel-size of {tensor} on {machine.name}, whose Neuron runtime supports "
            f"no such degree (NxD Inference's feature guide); legal: "
            f"{', '.join(map(str, legal))}",
            fix=f"--tensor-parallel-size {max(size for size in legal if size <= tensor)}",
        )
    _check_experts(model, machine, options)
    heads = heads_of(model)
    if tensor >= 2 * heads or (not machine.is_neuron and heads % tensor):
        legal = legal_tensor_sizes(model, machine)
        raise BadInput(
            f"--tensor-parallel-size of {tensor}, and {model.name} has {heads} heads; legal on "
            f"{machine.name}: {', '.join(map(str, legal))}",
            fix=f"--tensor-parallel-size {max(legal)}",
        )
    stages, depth = options.stages, model.depth
    if stages > depth:
        raise BadInput(
            f"--pipeline-parallel-size of {stages}; {model.name} has {depth} layers; "
            f"legal: 1 to {depth}"
        )
    if stages > 1 and tensor * options.expert * stages > machine.ranks:
        _check_efa(machine)


def _check_experts(model: Architecture, machine: Machine, options: ServerOptions) -> None:
    """Refuse a number of expert ranks that shares out no experts, or has too few ranks.

    Raises:
        BadInput: names the option and the legal values.
    """
    tensor, expert = options.tensor or 1, options.expert
    count = model.experts.count if model.experts else 0
    most_expert_ranks = machine.ranks // tensor
    sizes = [size for size in range(1, min(count, most_expert_ranks) + 1) if count % size == 0] or [
        1
    ]
    if expert in sizes:
        return
    why = f"; {model.name} has {count or 'no'} experts"
    if count and count % expert == 0:
        tensor_words = f"times --tensor-parallel-size of {tensor} " if tensor > 1 else ""
        why = f" {tensor_words}on {_ranks_of(machine)}"
    raise BadInput(
        f"--expert-parallel-size of {expert}{why}; legal: {', '.join(map(str, sizes))}",
        fix="a divisor of its experts, for which there are ranks" if count else "leave it out",
    )


def _ranks_of(machine: Machine) -> str:
    ranks = f"{machine.ranks} ranks, each a {machine.rank_name}"
    return f"{machine.instance.name}, which has {ranks}"


def _check_platform(machine: Machine, options: ServerOptions) -> None:
    """Refuse options that exist only on the other platform, Neuron or GPU.

    Raises:
        BadInput: names the option.
    """
    compiled_shapes = {
        "--buckets": options.buckets,
        "--num-seqs-buckets": options.batches,
        "--max-prefills": options.prompts_at_once,
    }
    names = [name for name, value in compiled_shapes.items() if value]
    if names and not machine.is_neuron:
        raise BadInput(
            f"{names[0]} on {machine.name}; vLLM on GPUs compiles no shapes",
            fix="name AWS's chips: --on trn2",
        )
    if machine.is_neuron and not options.is_chunked:
        raise BadInput(
            f"--no-enable-chunked-prefill on {machine.name}; prompts and decodes never share a "
            "step there",
            source="vllm-neuron/docs/guides/features-guide.md, Segmented prefill",
            fix="leave it out; --max-num-batched-tokens sets the tokens of a prefill step",
        )


def _check_port(model: Architecture, machine: Machine, options: ServerOptions) -> None:
    """Refuse an untuned port of a model, except a mixture of experts on AWS's chips.

    A port is the adaptation of a model to AWS's chips. Figures of untuned ports are published only
    for mixtures of experts.

    Raises:
        BadInput: names the model or the GPU.
    """
    if not options.is_ported or (machine.is_neuron and model.experts is not None):
        return
    subject = (
        f"{model.name}, which has no experts" if machine.is_neuron else f"{machine.name}, a GPU"
    )
    raise BadInput(
        f"--port-state {options.port} of {subject}; ports that are not tuned are known of mixtures "
        "of experts on AWS's chips alone",
        source="docs/generated/accuracy-serving.md",
        fix="leave it out",
    )


def _check_efa(machine: Machine) -> None:
    """Refuse a replica that spans instances of a type without EFA.

    Raises:
        BadInput: names the instance type.
    """
    if not machine.instance.efa_bytes_per_s:
        raise BadInput(
            f"a replica on several {machine.instance.name}, which has no EFA",
            fix="a type with EFA such as trn1.32xlarge, or fewer ranks",
        )


class _PrefillLimits(NamedTuple):
    """The most tokens, and the most prompts, of a prefill step."""

    tokens: int
    prompts: int


def _prefill_limits(
    machine: Machine, options: ServerOptions, sequences: int, longest: int
) -> _PrefillLimits:
    """The limits of a prefill step: the user's, or the defaults of the serving software.

    Raises:
        BadInput: for a limit of tokens below the running sequences, or below a prompt.
    """
    prompts = min(options.prompts_at_once or _PROMPTS_A_STEP, sequences)
    tokens = options.max_num_batched_tokens
    if machine.is_neuron:
        return _PrefillLimits(tokens or longest * prompts, prompts)
    if tokens is None:
        memory = float(machine.chip.memory_bytes)
        tokens = next(
            step_tokens for least_bytes, step_tokens in _GPU_TOKENS if memory >= least_bytes
        )
        tokens = tokens if options.is_chunked else max(tokens, longest)
    least_tokens = sequences * (1 + options.draft_tokens) if options.is_chunked else longest
    if tokens < least_tokens:
        work = f"{sequences} sequences" if options.is_chunked else f"a prompt of {longest} tokens"
        raise BadInput(
            f"--max-num-batched-tokens is {tokens}; a step has to hold {work}, so legal: "
            f"{least_tokens} and more",
            fix=f"--max-num-batched-tokens {least_tokens}",
        )
    return _PrefillLimits(tokens, prompts)


def _buckets(options: ServerOptions, longest: int) -> tuple[int, ...]:
    """Compiled lengths in tokens: the user's, or powers of two from 128 on.

    An untuned port has only the longest. Source: optimum-neuron, NxDNeuronConfig: enable_bucketing
    is off.
    """
    if options.is_ported and not options.buckets:
        return (longest,)
    if not options.buckets:
        return powers_of_two(min(FIRST_BUCKET, longest), longest)
    return checked_buckets("--buckets", options.buckets, longest, "the longest sequence")


def _batches(options: ServerOptions, sequences: int) -> tuple[int, ...]:
    """Compiled batches of decode steps: the user's, or only a batch of `sequences`."""
    if not options.batches:
        return (sequences,)
    return checked_buckets("--num-seqs-buckets", options.batches, sequences, "a batch")


def sequence_candidates(machine: Machine, sequence_limit: int) -> Sequence[int]:
    """Values of `max_num_seqs` that a search tries: powers of two up to a limit, and the limit."""
    limit = sequence_limit if machine.is_neuron else min(sequence_limit, _GPU_SEQUENCES)
    return powers_of_two(1, limit)

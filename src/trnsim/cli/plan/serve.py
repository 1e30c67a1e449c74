"""``trnsim plan serve``: the best layout for a load, its latencies, and what a token costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.cli.comparison import Comparison
from trnsim.cli.options import (
    Lnc,
    MixedPrices,
    OwnPrices,
    PurchaseKind,
    Seed,
    catalogue_with,
    command,
)
from trnsim.cli.plan.serve_document import serve_document
from trnsim.cli.plan.shared import (
    Config,
    MeasuredFile,
    On,
    measured_table,
    price_remarks,
    purchased_platforms,
)
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import number, whole, wholes
from trnsim.cli.report_files import answering
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.place.machine import machine
from trnsim.system.serve import launch, trace
from trnsim.system.serve.demand import Demand, Slo, usual_lengths
from trnsim.system.serve.events import Router
from trnsim.system.serve.load import Synthetic, lengths
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import ServingPlan, plan
from trnsim.system.serve.sizing import Spare
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file, hub_id

_LEAST_REQUESTS: Final = 1000
"""Fewest requests of a load with a rate; a load of clients has `_REQUESTS_OF_CLIENT` for each."""
_MINUTE_S: Final = 60.0
_MOST_REQUESTS: Final = 100_000
_REQUESTS_OF_CLIENT: Final = 4


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of ``trnsim plan serve``."""

    config: Config
    on: On = None
    instances: Annotated[
        int | None, whole("Number of instances; default: the fewest that fit.")
    ] = None
    tensor_parallel_size: Annotated[int | None, whole("Ranks over which each layer is split.")] = (
        None
    )
    pipeline_parallel_size: Annotated[
        int | None, whole("Pipeline stages; default: as few as hold the model.")
    ] = None
    expert_parallel_size: Annotated[int, whole("Groups that divide experts.")] = 1
    data_parallel_size: Annotated[int | None, whole("Replicas; default: all that fit.")] = None
    prefill_replicas: Annotated[int, whole("Replicas for prompts alone.")] = 0
    lnc: Lnc = None
    max_num_seqs: Annotated[
        int | None, whole("Sequences that decode together.", unit="sequences")
    ] = None
    max_model_len: Annotated[
        int | None,
        whole(
            "Tokens of the longest sequence; default: the longest prompt and answer of the load.",
            unit="tokens",
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None,
        whole(
            "Maximum tokens of a step; default: the prompts of a prefill step on Neuron, and on "
            "GPUs 8192, or 2048 below 70 GiB of memory.",
            unit="tokens",
        ),
    ] = None
    max_prefills: Annotated[
        int | None, whole("Prompts of a prefill step on Neuron; default: 1.")
    ] = None
    block_size: Annotated[
        int | None,
        whole(
            "Tokens of a block of keys and values; default: 32 on Neuron and 16 on GPUs.",
            unit="tokens",
            example="16",
        ),
    ] = None
    gpu_memory_utilization: Annotated[
        float, number("Share of HBM that is used.", unit="share", default="90%")
    ] = 0.9
    quantization: Annotated[
        str,
        typer.Option(
            help="Type of weights: int8, fp8 or mxfp4; mxfp8 on Neuron, awq or gptq on GPUs; "
            "without, as the checkpoint has them.",
            metavar="DTYPE",
        ),
    ] = ""
    kv_cache_dtype: Annotated[
        str, typer.Option(help="Type of keys and values: auto or fp8.", metavar="DTYPE")
    ] = "auto"
    enable_prefix_caching: Annotated[
        bool, typer.Option(help="Whether prefixes that requests share are computed once.")
    ] = True
    enable_chunked_prefill: Annotated[
        bool, typer.Option(help="Whether GPUs mix prompts and decoding in one step.")
    ] = True
    num_speculative_tokens: Annotated[
        int, whole("Tokens drafted for a step.", unit="tokens", example="4")
    ] = 0
    speculative_acceptance: Annotated[
        float | None,
        number("Probability with which a drafted token is accepted.", unit="share"),
    ] = None
    speculative_model: Annotated[
        Path | None,
        typer.Option(
            parser=config_file,
            help="The draft model's name or config.json; default: an EAGLE head.",
            metavar="MODEL",
        ),
    ] = None
    buckets: Annotated[
        Any,  # None, or a tuple of whole numbers
        wholes(
            "Compiled lengths; default: powers of two from 128 on.",
            unit="tokens",
            example="512,1Ki",
            is_list=True,
        ),
    ] = None
    num_seqs_buckets: Annotated[
        Any,
        wholes(
            "Compiled batches; default: one of all sequences.",
            unit="sequences",
            example="8,16",
            is_list=True,
        ),
    ] = None
    host_time: Annotated[
        float | None,
        number(
            "Seconds of the host for a step; default: as the answer's assumptions say.",
            unit="s",
            example="2ms",
        ),
    ] = None
    expert_imbalance: Annotated[
        float | None,
        number(
            "Tokens of the busiest expert rank over the mean; default: that of an even router.",
            example="1.2",
        ),
    ] = None
    port_state: Annotated[
        str,
        typer.Option(
            help="Port of a mixture of experts to AWS's chips: tuned or as-ported.",
            metavar="STATE",
        ),
    ] = "tuned"
    input_len: Annotated[
        str | None,
        typer.Option(
            help="Tokens of prompts; default: 2048, or what the model takes.", metavar="TOKENS|2k"
        ),
    ] = None
    output_len: Annotated[
        str | None,
        typer.Option(
            help="Tokens of answers; default: 256, or half of what the model takes.",
            metavar="TOKENS|256",
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        whole("Clients that each wait for an answer, in place of --request-rate.", minimum=1),
    ] = None
    request_rate: Annotated[
        float | None,
        number("Requests that arrive in a second.", unit="requests/s", exclusive_minimum=0),
    ] = None
    burstiness: Annotated[
        float, number("Burstiness of arrivals: below 1 in bursts, 1 is Poisson.")
    ] = 1.0
    num_prompts: Annotated[
        int | None,
        whole(
            "Number of requests; default: a minute's, 1000 at least, or four for each client.",
            unit="requests",
            minimum=1,
        ),
    ] = None
    prefix_len: Annotated[int, whole("Tokens that prompts share, in front.", unit="tokens")] = 0
    num_prefixes: Annotated[int, whole("Number of different prefixes.")] = 1
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="Requests to serve: JSON lines or CSV.", metavar="FILE"),
    ] = None
    save_trace: Annotated[
        Path | None,
        typer.Option(
            help="Write the requests that were served: JSON lines, or CSV in a .csv file.",
            metavar="FILE",
        ),
    ] = None
    router: Annotated[
        str,
        typer.Option(
            help="How requests find a replica: round-robin or least-work.", metavar="NAME"
        ),
    ] = "round-robin"
    seed: Seed = 0
    slo_ttft: Annotated[
        float | None, number("Seconds to the first token, at P99.", unit="s", example="2s")
    ] = None
    slo_tpot: Annotated[float | None, number("Seconds between tokens, at P99.", unit="s")] = None
    spare: Annotated[
        str | None,
        typer.Option(
            help="What may fail while the rest keeps the SLO: instance, replica or none; an "
            "instance where their number is searched.",
            metavar="NAME",
        ),
    ] = None
    measured: MeasuredFile = None
    price: PurchaseKind = "capacity_block"
    prices: OwnPrices = None
    mixed_prices: MixedPrices = False
    emit: Annotated[
        str | None,
        typer.Option(help="Print a command that starts the server: vllm.", metavar="KIND"),
    ] = None

    def server(self) -> ServerOptions:
        """The options of the server."""
        return ServerOptions(
            tensor=self.tensor_parallel_size,
            pipeline=self.pipeline_parallel_size,
            expert=self.expert_parallel_size,
            replicas=self.data_parallel_size,
            prefill_replicas=self.prefill_replicas,
            instances=self.instances,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            max_num_batched_tokens=self.max_num_batched_tokens,
            prompts_at_once=self.max_prefills,
            block_tokens=self.block_size,
            utilization=self.gpu_memory_utilization,
            quantization=self.quantization,
            kv_dtype=self.kv_cache_dtype,
            has_prefix_cache=self.enable_prefix_caching,
            is_chunked=self.enable_chunked_prefill,
            draft_tokens=self.num_speculative_tokens,
            acceptance=self.speculative_acceptance,
            draft=read(self.speculative_model) if self.speculative_model else None,
            buckets=self.buckets or (),
            batches=self.num_seqs_buckets or (),
            host_s=self.host_time,
            imbalance=self.expert_imbalance,
            port=self.port_state,
        )

    def demand(self, model: Architecture) -> Demand:
        """The load of --trace, or a drawn one, with the router.

        Lengths that no option states fit into the longest sequence of the model and the server.

        Raises:
            BadInput: the load is not legal, or two loads are described.
        """
        _check_load(self)
        _check_effects(self, model)
        router, count = _router(self.router), self.num_prompts or self._usual_count()
        limits = [limit for limit in (model.length_limit, self.max_model_len) if limit]
        synthetic = Synthetic(
            *usual_lengths(
                max(min(limits, default=0) - self.prefix_len, 0),
                lengths(self.input_len, "--input-len") if self.input_len else None,
                lengths(self.output_len, "--output-len") if self.output_len else None,
            ),
            count,
            concurrency=(self.concurrency or 1) if self.request_rate is None else 0,
            rate_per_s=self.request_rate or 0.0,
            burstiness=self.burstiness,
            prefix_tokens=self.prefix_len,
            prefixes=self.num_prefixes,
            seed=self.seed,
        )
        has_open_rate = (
            self.trace_file is None and self.concurrency is None and self.request_rate is None
        )
        return Demand(
            None if self.trace_file is None else trace.read(self.trace_file),
            synthetic,
            has_open_rate=has_open_rate,
            router=router,
            is_saved=self.save_trace is not None,
        )

    def _usual_count(self) -> int:
        """The default number of requests: a minute's, or four for each client."""
        if self.request_rate is not None:
            return min(
                max(_LEAST_REQUESTS, math.ceil(_MINUTE_S * self.request_rate)), _MOST_REQUESTS
            )
        return _REQUESTS_OF_CLIENT * (self.concurrency or 1)


@answering
@command(ServeOptions)
def serve(options: ServeOptions) -> Document | None:
    """The instances of least cost that serve a load within an SLO, with their latencies and USD.

    Requests are run through the server step by step. AWS's chips compute one prompt at a time,
    before further tokens, padded to buckets; GPUs mix both up to a token budget. Instances, ranks
    and sequences that no option names are searched, and one instance is added as a spare. Without a
    rate, the most load of one instance is told: within the SLO, or at the knee of its latency.
    Lengths are numbers, uniform:LEAST:MOST or lognormal:MEDIAN:SIGMA.

    Example: trnsim plan serve llama-3.1-8b --on trn2 --request-rate 4 --slo-tpot 30ms
    """
    rows = catalogue_with(options.prices)
    kinds = purchased_platforms(options.on, options.price, is_mixed=options.mixed_prices)
    if options.save_trace is not None:
        if len(kinds) > 1:
            raise BadInput("--save-trace has one platform", fix="name one: --on trn2")
        files.check_writable(options.save_trace)
    model = read(options.config)
    table = measured_table(options.measured, [name for name, _ in kinds])
    spare, server = _spare(options), options.server()
    slo, demand = Slo(options.slo_ttft, options.slo_tpot), options.demand(model)
    _check_outputs(options, demand, server)
    plans: list[ServingPlan] = []
    comparison = Comparison()
    plan_on = partial(plan, model, slo=slo, spare=spare, rows=rows, measured=table)
    with progress() as tell:
        for name, kind in kinds:
            tell(f"layouts of {name}")
            machines = comparison.ask(name, partial(machine, name, lnc=options.lnc, rows=rows))
            tell_layout = partial(_tell, tell, name)
            for on_machine in machines:
                question = partial(plan_on, on_machine, server, demand, kind=kind, tell=tell_layout)
                plans += comparison.ask(name, question)
        comparison.check(plans, needs_all=bool(options.emit))
    remarks = price_remarks([serving_plan.quote for serving_plan in plans], rows)
    if options.save_trace is not None:
        (serving_plan,) = plans
        trace.write(options.save_trace, serving_plan.load, serving_plan.served.outcome.arrival_s)
    if options.emit:
        name = _vllm_model(options.config)
        echo("\n\n".join(launch.vllm(serving_plan.deployment, name) for serving_plan in plans))
        return None
    return serve_document(model, plans, demand, remarks, comparison.refusals)


def _check_load(options: ServeOptions) -> None:
    """Refuse options that describe two different loads.

    Raises:
        BadInput: both --concurrency and --request-rate, or --trace and an option of drawn loads.
    """
    if options.concurrency is not None and options.request_rate is not None:
        raise BadInput(
            "both --concurrency and --request-rate given; legal: one of them, as clients that "
            "wait for answers set the rate themselves",
            fix="leave one out",
        )
    value_by_option = {
        "--input-len": options.input_len,
        "--output-len": options.output_len,
        "--concurrency": options.concurrency,
        "--request-rate": options.request_rate,
        "--num-prompts": options.num_prompts,
    }
    value_by_option |= {
        name: value if value != default else None
        for name, value, default in (
            ("--burstiness", options.burstiness, ServeOptions.burstiness),
            ("--prefix-len", options.prefix_len, ServeOptions.prefix_len),
            ("--num-prefixes", options.num_prefixes, ServeOptions.num_prefixes),
        )
    }
    option_names = [name for name, value in value_by_option.items() if value is not None]
    if options.trace_file is not None and option_names:
        raise BadInput(
            f"both --trace and {option_names[0]} given; legal: one of them, as a trace is the load",
            fix="leave one out",
        )


def _check_effects(options: ServeOptions, model: Architecture) -> None:
    """Refuse options that have no effect without another one, or on this model.

    Raises:
        BadInput: for the first of them.
    """
    tokens = (not options.num_speculative_tokens, "--num-speculative-tokens 4", "is drafted")
    is_closed = options.concurrency is not None
    rate_option = "--request-rate 4 in place of --concurrency"
    is_bursty = options.burstiness != ServeOptions.burstiness
    dependent_options = {
        "--speculative-model": (options.speculative_model, *tokens),
        "--speculative-acceptance": (options.speculative_acceptance, *tokens),
        "--num-prefixes": (options.num_prefixes > 1, not options.prefix_len, "--prefix-len 1k",
                           "is shared"),
        "--burstiness": (is_bursty, is_closed, rate_option, "arrives before an answer"),
    }  # fmt: skip
    for name, (value, is_needless, needed_option, effect) in dependent_options.items():
        if value is not None and value is not False and is_needless:
            raise BadInput(
                f"{name} without {needed_option.split()[0]}: nothing {effect}",
                fix=f"leave it out, or give {needed_option}",
            )
    if options.expert_imbalance is not None and not model.experts:
        raise BadInput(f"--expert-imbalance: {model.name} has no experts", fix="leave it out")


def _tell(tell: Callable[[str], None], platform: str, message: str) -> None:
    tell(f"{platform}: {message}")


def _spare(options: ServeOptions) -> Spare | None:
    """The replica or instance whose failure the others must bear, as --spare says; None without.

    Raises:
        BadInput: the text is none of `Spare`.
    """
    if options.spare is None:
        return None
    try:
        return Spare(options.spare)
    except ValueError:
        legal = ", ".join(Spare)
        raise BadInput(
            f"--spare is {options.spare!r}; legal: {legal}", fix="--spare none for no spare"
        ) from None


def _router(name: str) -> Router:
    try:
        return Router(name)
    except ValueError:
        legal = " or ".join(Router)
        raise BadInput(f"--router is {name!r}; legal: {legal}") from None


def _check_outputs(options: ServeOptions, demand: Demand, server: ServerOptions) -> None:
    """Refuse an unknown --emit, and --save-trace of a load that depends on the layout found.

    Raises:
        BadInput: for either.
    """
    if options.emit not in (None, "vllm"):
        raise BadInput(f"--emit is {options.emit!r}; legal: vllm")
    is_layout_searched = server.tensor is None or server.max_num_seqs is None
    if demand.is_saved and demand.has_open_rate and is_layout_searched:
        raise BadInput(
            "--save-trace of a load that follows from the layout, which is searched",
            fix="give --concurrency or --request-rate, or --tensor-parallel-size and "
            "--max-num-seqs",
        )


def _vllm_model(config: Path) -> str:
    """The model's name for vLLM: its id on the hub, config.json's folder, or the file's name."""
    identity = hub_id(config)
    if identity:
        return identity
    return str(config.parent) if config.name == "config.json" else config.stem

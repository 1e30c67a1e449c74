"""The two sides of a pilot: the same work on today's instances and on the candidate's.

A side has the fewest instances that hold the model. Its rate is predicted as for a decision, so
that its measured factor also holds for the decision's hours.

| kind | the same on both sides | of each side's own | unit of rates |
|---|---|---|---|
| train | seed, order of data, sequences of a step, tokens of a sequence, steps | layout | tokens |
| serve | seed, requests, their lengths | deployment, concurrent requests | tokens |
| infer | seed, items | batch size | items |
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.calibrate.logs.measured import WARMUP_STEPS
from trnsim.decide.decision import DatedPrice
from trnsim.decide.inventory.workload import Kind, Workload
from trnsim.decide.times import Speed, passing, serving, training
from trnsim.facts import P90_SIGMAS, Interval, assumed
from trnsim.formatting import counted
from trnsim.jobs.start_files import start_file
from trnsim.place.machine import machine
from trnsim.system.serve import launch as servers
from trnsim.system.serve.server import Deployment
from trnsim.workload.model_names import model_name as model_name_of

TODAY: Final = "today"
THERE: Final = "there"
SIDES: Final = (TODAY, THERE)
STEPS: Final = 100
"""Default steps of a training run after the warm-up.

The median of 100 steps that differ by 8 % is known within 1 %.
"""
REQUESTS: Final = 1000
"""Default requests or passes: ten of 1000 lie above P99."""
START_HOURS: Final = assumed(0.5, "until the first step: loading weights and compiling; no source")
LEAST_REQUESTS_PER_CLIENT: Final = 4
"""Minimum requests of each client, so that the idle start and end of a load test weigh little."""
_SHELL_LINE: Final = "#!/bin/sh\n"
_WEIGHTS_LINE: Final = ': "${MODEL:?set it to the folder of weights and tokenizer}"\n'
_FILE_ENDING_BY_LAUNCHER: Final = {
    "torchrun": "torchrun.sh",
    "sbatch": "sbatch.sh",
    "job": "k8s.yaml",
}


@dataclass(frozen=True)
class PilotRun:
    """Work that both sides do.

    Attributes:
        kind: "train", "serve" or "infer".
        model: name of the model in logs.
        seed: seed of weights, order of data, and requests.
        count: number of steps after the first `WARMUP_STEPS`, of requests, or of passes.
        unit: unit of rates: "tokens" or "items".
        sequences: sequences of a training step.
        sequence: tokens of a sequence of training or of kind "infer".
        input_len: tokens of a request.
        output_len: tokens of an answer.
        dtype: dtype of matrix products.
        depth: layers of the model.
    """

    kind: Kind
    model: str
    seed: int
    count: int
    unit: str
    dtype: str
    depth: int
    sequences: int | None = None
    sequence: int | None = None
    input_len: int | None = None
    output_len: int | None = None

    @property
    def steps(self) -> int:
        """Steps of a training run, with the warm-up steps that figures leave out."""
        return self.count + WARMUP_STEPS


@dataclass(frozen=True)
class Side:
    """A side of a pilot.

    Attributes:
        name: "today" or "there".
        instances: instances that work together.
        ranks: ranks of all instances; a log's rate "of one accelerator" is that of a rank.
        layout: parallel layout or deployment.
        rate_per_s: tokens or items a second of all instances.
        units: tokens or items of the whole run.
        hours: hours of the run, including its start.
        price: price of an hour of one instance; None without a public price.
        usd: cost of the run.
    """

    name: str
    instance: str
    instances: int
    ranks: int
    layout: str
    rate_per_s: Interval
    units: float
    hours: float
    price: DatedPrice | None
    usd: float | None


@dataclass(frozen=True)
class Host:
    """Instance type of a side, with its speed and price.

    Attributes:
        price: price of an hour; None without a public price.
    """

    instance: str
    speed: Speed
    price: DatedPrice | None


@dataclass(frozen=True)
class PilotSides:
    """Both sides of a pilot, the work that they do, and the files that start them, by name."""

    run: PilotRun
    today: Side
    there: Side
    files: dict[str, str]


def pilot_sides(
    workload: Workload,
    hosts: Mapping[str, Host],
    *,
    seed: int = 0,
    count: int | None = None,
    rows: Catalogue | None = None,
) -> PilotSides:
    """Both sides of a pilot of `workload`.

    Args:
        workload: a workload of the inventory.
        hosts: instance types with their speeds and prices, by name of the side.
        seed: seed of the work.
        count: number of steps, requests or passes; None for the default of the kind.
        rows: catalogue of instances.

    Raises:
        EmulatorError: a side cannot run the workload.
    """
    sides_of_kind = {"train": _training, "serve": _serving, "infer": _passing}[workload.kind]
    return sides_of_kind(workload, hosts, seed, count, rows)


def model_name(workload: Workload) -> str:
    """The model's name in logs."""
    return model_name_of(workload.model_path)


def _run(workload: Workload, seed: int, count: int, unit: str, dtype: str = "bf16") -> PilotRun:
    depth = workload.model.depth
    return PilotRun(workload.kind, model_name(workload), seed, count, unit, dtype, depth)


def _side(
    name: str, host: Host, *, instances: int, ranks: int, layout: str, rate: float, units: float
) -> Side:
    spread = math.exp(P90_SIGMAS * math.hypot(*host.speed.sigmas.values()))
    hours = units / rate / 3600 + float(START_HOURS)
    usd = None if host.price is None else instances * hours * host.price.usd_per_hour
    return Side(
        name=name,
        instance=host.instance,
        instances=instances,
        ranks=ranks,
        layout=layout,
        rate_per_s=Interval(rate / spread, rate, rate * spread),
        units=units,
        hours=hours,
        price=host.price,
        usd=usd,
    )


def _training(
    workload: Workload,
    hosts: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    todays_layout = training.smallest(workload, hosts[TODAY].instance, rows).step.layout
    shape = replace(
        workload.shape, batch=todays_layout.global_batch, sequence=todays_layout.sequence
    )
    equal_work = replace(workload, shape=shape)
    run = replace(
        _run(workload, seed, count or STEPS, "tokens", todays_layout.dtype),
        sequences=todays_layout.global_batch,
        sequence=todays_layout.sequence,
    )
    arguments = ["--train-iters", str(run.steps), "--seed", str(seed), "--log-interval", "1"]
    arguments += ["--dataloader-type", "single", "--deterministic-mode"]
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name in SIDES:
        best = training.smallest(equal_work, hosts[name].instance, rows)
        fleet, step = best.machine, best.step
        tokens = step.layout.global_batch * step.layout.sequence
        sides[name] = _side(
            name,
            hosts[name],
            instances=fleet.count,
            ranks=fleet.ranks,
            layout=str(step.layout),
            rate=tokens / step.step_s.p50,
            units=float(tokens * run.steps),
        )
        for kind, ending in _FILE_ENDING_BY_LAUNCHER.items():
            files[f"{name}-{ending}"] = start_file(kind, fleet, step.layout, arguments)
    return PilotSides(run, sides[TODAY], sides[THERE], files)


def _serving(
    workload: Workload,
    hosts: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    shape = workload.shape
    inputs = shape.input_len or serving.INPUT_TOKENS
    outputs = shape.output_len or serving.OUTPUT_TOKENS
    deployments = {
        name: serving.best_deployment(workload, hosts[name].instance, rows) for name in SIDES
    }
    concurrency = {
        name: max(int(load.sequences * min(rate_in_slo / load.tokens_per_s, 1.0)), 1)
        for name, (load, rate_in_slo, _) in deployments.items()
    }
    clients = {name: concurrency[name] * deployments[name][0].deployment.replicas for name in SIDES}
    total_requests = max(count or REQUESTS, LEAST_REQUESTS_PER_CLIENT * max(clients.values()))
    run = replace(
        _run(workload, seed, total_requests, "tokens"), input_len=inputs, output_len=outputs
    )
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name, (load, _, _) in deployments.items():
        deployment = load.deployment
        sides[name] = _side(
            name,
            hosts[name],
            instances=deployment.instances,
            ranks=deployment.ranks_used,
            layout=f"{deployment.size_text}, "
            f"{counted(concurrency[name], 'request')} at a time each",
            rate=load.tokens_per_s_at(concurrency[name]),
            units=float(run.count * outputs),
        )
        files[f"{name}-server.sh"] = _server_script(deployment, run.model)
        files[f"{name}-load.sh"] = _load_test(name, run, clients[name])
    return PilotSides(run, sides[TODAY], sides[THERE], files)


def _server_script(deployment: Deployment, model: str) -> str:
    command = servers.vllm(deployment, "MODEL").replace("vllm serve MODEL", 'vllm serve "$MODEL"')
    name = shlex.quote(model)
    return f"{_SHELL_LINE}{_WEIGHTS_LINE}{command} \\\n    --served-model-name {name}\n"


def _load_test(side: str, run: PilotRun, clients: int) -> str:
    """The load test of a side. Source: docs.vllm.ai, cli/bench/serve."""
    arguments = [
        f'vllm bench serve --model {shlex.quote(run.model)} --tokenizer "$MODEL"',
        "--dataset-name random --ignore-eos",
        f"--random-input-len {run.input_len} --random-output-len {run.output_len}",
        f"--num-prompts {run.count} --seed {run.seed}",
        f"--max-concurrency {clients}",
        "--percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,99",
        f"--save-result --result-filename {side}.json",
    ]
    return f"{_SHELL_LINE}{_WEIGHTS_LINE}" + " \\\n    ".join(arguments) + "\n"


def _passing(
    workload: Workload,
    hosts: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    shape = workload.shape
    estimates = {
        name: passing.best_estimate(workload, hosts[name].instance, rows)[0] for name in SIDES
    }
    run = replace(
        _run(workload, seed, count or REQUESTS, "items"),
        sequence=shape.sequence,
    )
    items = run.count * max(estimate.batch for estimate in estimates.values())
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name, best in estimates.items():
        fleet = machine(hosts[name].instance, rows=rows)
        sides[name] = _side(
            name,
            hosts[name],
            instances=1,
            ranks=fleet.ranks,
            layout=f"{best.copies} copies of batch {best.batch}",
            rate=best.items_per_s.p50,
            units=float(items),
        )
        arguments = [
            f"--copies {best.copies} --batch-size {best.batch} --items {items} --seed {seed}"
        ]
        arguments += [f"--sequence-length {shape.sequence}"] if shape.sequence else []
        arguments += [f"--image-size {shape.image}"] if shape.image else []
        arguments += [f"--steps {shape.steps}"] if shape.steps else []
        lines = ["#!/bin/sh", f"# on 1 x {best.instance}"]
        lines += [f"export NEURON_LOGICAL_NC_CONFIG={fleet.lnc}"] if fleet.lnc else []
        lines += [f"python infer.py {' '.join(arguments)} --log {name}.csv", ""]
        files[f"{name}-run.sh"] = "\n".join(lines)
    return PilotSides(run, sides[TODAY], sides[THERE], files)

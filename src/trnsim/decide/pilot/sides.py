"""The two sides of a pilot: the same work on today's instances and on new ones.

A side is the fewest instances that hold the model. Its rate is predicted as for a decision, so
that its measured factor also holds for the decision's hours.

| kind | alike on both sides | counted |
|---|---|---|
| train | seed, order of data, sequences of a step, tokens of a sequence, steps | tokens |
| serve | seed, requests, their lengths; each side as many in flight as it promises | tokens |
| infer | seed, items; each side in the batch that is best for it | items |
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
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times import Speed, passing, serving, training
from trnsim.facts import P90_SIGMAS, Interval, assumed
from trnsim.jobs.start_files import start_file
from trnsim.place.machine import machine
from trnsim.system.serve import launch as servers
from trnsim.system.serve.server import Deployment
from trnsim.workload.model_names import model_name as model_name_of

TODAY: Final = "today"
THERE: Final = "there"
SIDES: Final = (TODAY, THERE)
STEPS: Final = 100
"""Default steps of a training run behind the first ones: the median of as many steps that differ
by 8 % is known within 1 %."""
REQUESTS: Final = 1000
"""Default requests or passes: P99 rests on ten of them."""
START_HOURS: Final = assumed(0.5, "until the first step: loading weights and compiling; no source")
WAVES: Final = 4
"""Least requests of each client: the idle ends of a load test then weigh little."""
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
        count: number of steps behind the first `WARMUP_STEPS`, of requests, or of passes.
        unit: unit of rates: "tokens" or "items".
        sequences: sequences of a step of training.
        sequence: tokens of a sequence that is trained on or passed.
        input_len: tokens of a request.
        output_len: tokens of an answer.
        dtype: dtype of products.
        depth: layers of the model.
    """

    kind: str
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
        """Steps of a training run, with the first ones, which figures leave out."""
        return self.count + WARMUP_STEPS


@dataclass(frozen=True)
class Side:
    """A side of a pilot.

    Attributes:
        instances: instances that work together.
        ranks: ranks of all instances; a log's rate "of one accelerator" is that of a rank.
        rate_per_s: tokens or items a second of all instances.
        units: tokens or items of the run.
        hours: hours of the run, with its start.
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
        speed: speed as predicted for the decision.
        price: price of an hour.
    """

    instance: str
    speed: Speed
    price: DatedPrice | None


@dataclass(frozen=True)
class PilotSides:
    """Both sides of a pilot, and the files that start them, by name."""

    run: PilotRun
    today: Side
    there: Side
    files: dict[str, str]


def pilot_sides(
    workload: Workload,
    places: Mapping[str, Host],
    *,
    seed: int = 0,
    count: int | None = None,
    rows: Catalogue | None = None,
) -> PilotSides:
    """Both sides of `workload` on `places`, by side.

    Raises:
        EmulatorError: a side cannot run it.
    """
    sides_of_kind = {"train": _training, "serve": _serving, "infer": _passing}[workload.kind]
    return sides_of_kind(workload, places, seed, count, rows)


def model_name(workload: Workload) -> str:
    """The model's name in logs."""
    return model_name_of(workload.model_path)


def _run(workload: Workload, seed: int, count: int, unit: str, dtype: str = "bf16") -> PilotRun:
    depth = sum(tower.depth for tower in workload.model.towers)
    return PilotRun(workload.kind, model_name(workload), seed, count, unit, dtype, depth)


def _side(
    name: str, at: Host, *, instances: int, ranks: int, layout: str, rate: float, units: float
) -> Side:
    spread = math.exp(P90_SIGMAS * math.hypot(*at.speed.sigmas.values()))
    hours = units / rate / 3600 + float(START_HOURS)
    usd = None if at.price is None else instances * hours * at.price.usd_per_hour
    return Side(
        name=name,
        instance=at.instance,
        instances=instances,
        ranks=ranks,
        layout=layout,
        rate_per_s=Interval(rate / spread, rate, rate * spread),
        units=units,
        hours=hours,
        price=at.price,
        usd=usd,
    )


def _training(
    workload: Workload,
    places: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    first = training.smallest(workload, places[TODAY].instance, rows).step.layout
    shape = replace(workload.shape, batch=first.global_batch, sequence=first.sequence)
    equal_work = replace(workload, shape=shape)
    run = replace(
        _run(workload, seed, count or STEPS, "tokens", first.dtype),
        sequences=first.global_batch,
        sequence=first.sequence,
    )
    words = ["--train-iters", str(run.steps), "--seed", str(seed), "--log-interval", "1"]
    words += ["--dataloader-type", "single", "--deterministic-mode"]
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name in SIDES:
        best = training.smallest(equal_work, places[name].instance, rows)
        fleet, step = best.machine, best.step
        tokens = step.layout.global_batch * step.layout.sequence
        sides[name] = _side(
            name,
            places[name],
            instances=fleet.count,
            ranks=fleet.ranks,
            layout=str(step.layout),
            rate=tokens / step.step_s.p50,
            units=float(tokens * run.steps),
        )
        for kind, ending in _FILE_ENDING_BY_LAUNCHER.items():
            files[f"{name}-{ending}"] = start_file(kind, fleet, step.layout, words)
    return PilotSides(run, sides[TODAY], sides[THERE], files)


def _serving(
    workload: Workload,
    places: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    shape = workload.shape
    inputs = shape.input_len or serving.INPUT_TOKENS
    outputs = shape.output_len or serving.OUTPUT_TOKENS
    deployments = {
        name: serving.best_deployment(workload, places[name].instance, rows) for name in SIDES
    }
    flying = {
        name: max(int(busy.sequences * min(promised / busy.tokens_per_s, 1.0)), 1)
        for name, (busy, promised, _) in deployments.items()
    }
    clients = {name: flying[name] * deployments[name][0].deployment.replicas for name in SIDES}
    total = max(count or REQUESTS, WAVES * max(clients.values()))
    run = replace(_run(workload, seed, total, "tokens"), input_len=inputs, output_len=outputs)
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name, (busy, _, _) in deployments.items():
        deployment = busy.deployment
        sides[name] = _side(
            name,
            places[name],
            instances=deployment.instances,
            ranks=deployment.ranks_used,
            layout=f"{deployment.replicas} replicas of {deployment.ranks} ranks, "
            f"{flying[name]} requests at a time each",
            rate=busy.tokens_per_s_at(flying[name]),
            units=float(run.count * outputs),
        )
        files[f"{name}-server.sh"] = _server(deployment, run.model)
        files[f"{name}-load.sh"] = _load(name, run, clients[name])
    return PilotSides(run, sides[TODAY], sides[THERE], files)


def _server(deployment: Deployment, model: str) -> str:
    command = servers.vllm(deployment, "MODEL").replace("vllm serve MODEL", 'vllm serve "$MODEL"')
    name = shlex.quote(model)
    return f"{_SHELL_LINE}{_WEIGHTS_LINE}{command} \\\n    --served-model-name {name}\n"


def _load(side: str, run: PilotRun, clients: int) -> str:
    """The load test of a side. Source: docs.vllm.ai, cli/bench/serve."""
    words = [
        f'vllm bench serve --model {shlex.quote(run.model)} --tokenizer "$MODEL"',
        "--dataset-name random --ignore-eos",
        f"--random-input-len {run.input_len} --random-output-len {run.output_len}",
        f"--num-prompts {run.count} --seed {run.seed}",
        f"--max-concurrency {clients}",
        "--percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,99",
        f"--save-result --result-filename {side}.json",
    ]
    return f"{_SHELL_LINE}{_WEIGHTS_LINE}" + " \\\n    ".join(words) + "\n"


def _passing(
    workload: Workload,
    places: Mapping[str, Host],
    seed: int,
    count: int | None,
    rows: Catalogue | None,
) -> PilotSides:
    shape = workload.shape
    estimates = {
        name: passing.best_estimate(workload, places[name].instance, rows)[0] for name in SIDES
    }
    run = replace(
        _run(workload, seed, count or REQUESTS, "items"),
        sequence=shape.sequence,
    )
    items = run.count * max(estimate.batch for estimate in estimates.values())
    sides: dict[str, Side] = {}
    files: dict[str, str] = {}
    for name, best in estimates.items():
        fleet = machine(places[name].instance, rows=rows)
        sides[name] = _side(
            name,
            places[name],
            instances=1,
            ranks=fleet.ranks,
            layout=f"{best.copies} copies of batch {best.batch}",
            rate=best.items_per_s.p50,
            units=float(items),
        )
        words = [f"--copies {best.copies} --batch-size {best.batch} --items {items} --seed {seed}"]
        words += [f"--sequence-length {shape.sequence}"] if shape.sequence else []
        words += [f"--image-size {shape.image}"] if shape.image else []
        words += [f"--steps {shape.steps}"] if shape.steps else []
        lines = ["#!/bin/sh", f"# on 1 x {best.instance}"]
        lines += [f"export NEURON_LOGICAL_NC_CONFIG={fleet.lnc}"] if fleet.lnc else []
        lines += [f"python infer.py {' '.join(words)} --log {name}.csv", ""]
        files[f"{name}-run.sh"] = "\n".join(lines)
    return PilotSides(run, sides[TODAY], sides[THERE], files)

"""Speed of serving: the cheapest deployment of an instance within the promised latency.

    cycle  = sequences x prefill + output tokens x decode(sequences)
    tokens = sequences x output tokens / cycle

A closed form ranks deployments at full load; a short run of the server with random arrivals then
lowers the rate of the best ones until their latencies are within the promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.workload import Workload, WorkloadSlo
from trnsim.decide.times.families import TPOT, TTFT
from trnsim.decide.times.speed import Speed, doubts
from trnsim.estimate.ported import Port
from trnsim.place.machine import machine
from trnsim.system.serve.demand import Demand, busy_demand, request_s
from trnsim.system.serve.demand import Slo as Limits
from trnsim.system.serve.figures import PERCENTILES, run_once
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.search import Search
from trnsim.system.serve.server import Deployment
from trnsim.workload.operators import Phase

INPUT_TOKENS: Final = 2048
OUTPUT_TOKENS: Final = 256
"""Lengths of a request if none are stated, as in `trnsim plan serve`."""
_LATENCY_RUN_REQUESTS: Final = 256
"""Requests of a run that measures latencies."""
_LEAST_BUSY_SHARE: Final = 0.9
"""Share of the rate at full load with which a run with random arrivals begins."""
_RATE_FACTOR: Final = 0.8
_MOST_LOWERINGS: Final = 6
_MOST_TRIED_DEPLOYMENTS: Final = 12
"""Most deployments that are run."""


def speed(workload: Workload, name: str, rows: Catalogue | None = None) -> Speed:
    """Speed in output tokens a second on the type `name`, prompts included.

    Raises:
        BadInput: nothing can be deployed.
        OutOfMemory: the model does not fit.
    """
    best, rate, is_met = best_deployment(workload, name, rows)
    return best.speed(rate, is_met)


def best_deployment(
    workload: Workload, name: str, rows: Catalogue | None = None
) -> tuple[Busy, float, bool | None]:
    """Best deployment, its output tokens a second, and whether it keeps the promised latencies.

    Raises:
        BadInput: nothing can be deployed.
        OutOfMemory: the model does not fit.
    """
    shape, slo = workload.shape, workload.slo
    lengths = shape.input_len or INPUT_TOKENS, shape.output_len or OUTPUT_TOKENS
    demand, fleet = busy_demand(*lengths), machine(name, rows=rows)
    has_port = fleet.is_neuron and workload.model.experts is not None
    port = workload.port_state if has_port else Port.TUNED
    options = ServerOptions(max_model_len=sum(lengths), port=port)
    model = workload.model
    deployments = Search(model, fleet, options, demand, None, Limits(), None).deployments()
    busy = [Busy(deployment, demand) for deployment in deployments]
    busy.sort(key=lambda option: option.cost)
    if not _has_limits(slo):
        return busy[0], busy[0].tokens_per_s, None
    best, rate = busy[0], 0.0
    for candidate in [candidate for candidate in busy if candidate.can_keep(slo)][
        :_MOST_TRIED_DEPLOYMENTS
    ]:
        if rate and _LEAST_BUSY_SHARE / candidate.cost <= rate / best.deployment.instances:
            break
        within_rate = candidate.rate_within(slo)
        if within_rate / candidate.deployment.instances > rate / best.deployment.instances:
            best, rate = candidate, within_rate
    return best, rate or best.tokens_per_s, rate > 0


def _has_limits(slo: WorkloadSlo) -> bool:
    return any(limit is not None for limit in (slo.ttft_s, slo.tpot_s, slo.latency_s))


@dataclass(frozen=True)
class Busy:
    """A deployment under full load of requests of one kind."""

    deployment: Deployment
    demand: Demand

    @property
    def sequences(self) -> int:
        """Sequences that a replica decodes together."""
        return self.deployment.engine.max_num_seqs

    @property
    def outputs(self) -> float:
        """Tokens of an answer."""
        return self.demand.drawn.outputs.mean

    @property
    def cycle_s(self) -> float:
        """Seconds in which a replica serves all its sequences."""
        return request_s(self.deployment, self.demand.drawn)

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all replicas."""
        cycle_s = self.cycle_s
        return self.deployment.replicas * self.sequences * self.outputs / cycle_s

    def rate(self, flying: int) -> float:
        """Output tokens a second of all replicas, each with `flying` requests at a time."""
        steps, engine = self.deployment.steps, self.deployment.engine
        prompt_s = steps.prefill(1, engine.bucket(self.demand.drawn.inputs.mean), 0).time_s
        decode_s = steps.decode(flying, engine.max_model_len).time_s / engine.growth
        cycle_s = flying * prompt_s + self.outputs * decode_s
        return self.deployment.replicas * flying * self.outputs / cycle_s

    @property
    def cost(self) -> float:
        """Instance-seconds of a token."""
        return self.deployment.instances / self.tokens_per_s

    def can_keep(self, slo: WorkloadSlo) -> bool:
        """True if latencies are within the promise for a request that never waits."""
        steps, engine = self.deployment.steps, self.deployment.engine
        prompt_s = steps.prefill(1, engine.bucket(self.demand.drawn.inputs.mean), 0).time_s
        decode_s = steps.decode(1, engine.max_model_len).time_s
        least = (
            (slo.ttft_s, prompt_s),
            (slo.tpot_s, decode_s),
            (slo.latency_s, prompt_s + self.outputs * decode_s),
        )
        return all(limit is None or time_s <= limit for limit, time_s in least)

    def rate_within(self, slo: WorkloadSlo) -> float:
        """Tokens a second of all replicas with latencies within the promise; 0 if no rate is."""
        part = _LEAST_BUSY_SHARE
        for _ in range(_MOST_LOWERINGS):
            if self._is_within(slo, part):
                return part * self.tokens_per_s
            part *= _RATE_FACTOR
        return 0.0

    def _is_within(self, slo: WorkloadSlo, part: float) -> bool:
        per_s = part * self.sequences / self.cycle_s
        drawn = replace(self.demand.drawn.at_rate(per_s), count=_LATENCY_RUN_REQUESTS)
        load = drawn.requests(self.deployment.engine.max_model_len)
        values = run_once(replace(self.deployment, replicas=1), load)[1].values
        at = next((rank for rank in PERCENTILES if rank >= slo.percentile), PERCENTILES[-1])
        limits = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2e": slo.latency_s}
        return all(
            limit is None or values.get(f"{name}_p{at}_s", 0.0) <= limit
            for name, limit in limits.items()
        )

    def speed(self, tokens_per_s: float, is_met: bool | None) -> Speed:
        """Speed of an instance at this rate of the deployment."""
        deployment, engine = self.deployment, self.deployment.engine
        prompt = deployment.steps.prefill(1, engine.bucket(self.demand.drawn.inputs.mean), 0)
        decode = deployment.steps.decode(self.sequences, engine.max_model_len)
        share = self.outputs * decode.time_s / engine.growth / self.cycle_s
        chip = deployment.machine.chip
        family, most = (TPOT, decode) if share >= 1 / 2 else (TTFT, prompt)
        prompts_s = self.sequences * prompt.time_s / self.outputs
        parts = {cause: 1e3 * time_s for cause, time_s in decode.parts_s.items() if time_s}
        return Speed(
            units_per_s=tokens_per_s,
            group=deployment.instances,
            doubts=doubts(chip, Phase.DECODE, decode.sigma, share)
            | doubts(chip, Phase.PREFILL, prompt.sigma, 1 - share),
            family=family.name,
            is_validated=family.is_near and most.is_validated,
            error=family.error,
            is_met=is_met,
            layout=f"{deployment.replicas} replicas of {deployment.ranks} ranks, "
            f"{self.sequences} sequences" + (", as ported" * deployment.options.is_ported),
            ms={"prompts of others": 1e3 * prompts_s, **parts},
            notes=most.evidence,
        )

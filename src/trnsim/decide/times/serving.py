"""Speed of serving: the layout of an instance that keeps the most load within the promise.

With a promise it is the capacity answer of `trnsim plan serve`, from runs of the server. Without
one a closed form at full load ranks the layouts:

    cycle  = sequences x prefill + output tokens x decode(sequences)
    tokens = sequences x output tokens / cycle
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times.families import TPOT, TTFT
from trnsim.decide.times.speed import Speed, doubts
from trnsim.estimate.ported import Port
from trnsim.place.machine import machine
from trnsim.system.serve.answer import capacity_answer
from trnsim.system.serve.demand import Demand, busy_demand, free_demand, request_s
from trnsim.system.serve.demand import Slo as Limits
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.search import Search
from trnsim.system.serve.server import Deployment
from trnsim.workload.operators import Phase

INPUT_TOKENS: Final = 2048
OUTPUT_TOKENS: Final = 256
"""Lengths of a request if none are stated, as in `trnsim plan serve`."""


def speed(
    workload: Workload, name: str, rows: Catalogue | None = None, *, is_brief: bool = False
) -> Speed:
    """Speed in output tokens a second on the type `name`, prompts included.

    Raises:
        BadInput: nothing can be deployed.
        OutOfMemory: the model does not fit.
    """
    best, rate, is_met = best_deployment(workload, name, rows, is_brief=is_brief)
    return best.speed(rate, is_met)


def best_deployment(
    workload: Workload, name: str, rows: Catalogue | None = None, *, is_brief: bool = False
) -> tuple[Busy, float, bool | None]:
    """Best deployment, its output tokens a second, and whether it keeps the promised latencies.

    A brief answer is from shorter runs.

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
    if limits := Limits(slo.ttft_s, slo.tpot_s, slo.latency_s, slo.percentile):
        answer = capacity_answer(
            deployments, free_demand(*lengths), sum(lengths), limits, is_brief=is_brief
        )
        if answer.nearest is None:
            best = Busy(answer.test.deployment, demand)
            return best, answer.capacity.per_s * best.outputs, True
    best = min((Busy(deployment, demand) for deployment in deployments), key=lambda busy: busy.cost)
    return best, best.tokens_per_s, False if limits else None


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

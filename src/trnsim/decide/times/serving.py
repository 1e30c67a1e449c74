"""Speed of serving: the deployment that serves the most output tokens a second within the SLO.

With a latency SLO it is the capacity of `trnsim plan serve`, from simulated runs of the server.
Without an SLO, deployments are ranked by instance-seconds of a token at full load, in closed form:

    cycle seconds   = sequences x prefill seconds + output tokens x decode step seconds(sequences)
    tokens a second = replicas x sequences x output tokens / cycle seconds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times.families import TPOT, TTFT
from trnsim.decide.times.speed import Speed, phase_sigmas
from trnsim.estimate.ported import Port
from trnsim.formatting import counted
from trnsim.place.machine import machine
from trnsim.system.serve.answer import capacity_answer
from trnsim.system.serve.demand import Demand, Slo, open_rate_demand, request_s, saturating_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.search import Search
from trnsim.system.serve.server import Deployment
from trnsim.workload.operators import Phase

INPUT_TOKENS: Final = 2048
OUTPUT_TOKENS: Final = 256
"""Lengths of a request and of its answer if not stated, as in `trnsim plan serve`."""


def speed(
    workload: Workload, name: str, rows: Catalogue | None = None, *, is_brief: bool = False
) -> Speed:
    """Speed in output tokens a second on the type `name`; the time includes the prefills.

    Raises:
        BadInput: nothing can be deployed.
        OutOfMemory: the model does not fit.
    """
    best, rate, is_met = best_deployment(workload, name, rows, is_brief=is_brief)
    return best.speed(rate, is_met)


def best_deployment(
    workload: Workload, name: str, rows: Catalogue | None = None, *, is_brief: bool = False
) -> tuple[FullLoad, float, bool | None]:
    """Best deployment, its output tokens a second, and whether it meets the latency SLO.

    The last value is None without an SLO.

    Args:
        workload: a workload of kind "serve".
        name: instance type.
        rows: catalogue of instances.
        is_brief: True for shorter simulated runs.

    Raises:
        BadInput: nothing can be deployed.
        OutOfMemory: the model does not fit.
    """
    shape, slo = workload.shape, workload.slo
    lengths = shape.input_len or INPUT_TOKENS, shape.output_len or OUTPUT_TOKENS
    demand, fleet = saturating_demand(*lengths), machine(name, rows=rows)
    has_port = fleet.is_neuron and workload.model.experts is not None
    port = workload.port_state if has_port else Port.TUNED
    options = ServerOptions(max_model_len=sum(lengths), port=port)
    model = workload.model
    deployments = Search(model, fleet, options, demand, None, Slo()).deployments()
    if slo:
        answer = capacity_answer(
            deployments, open_rate_demand(*lengths), sum(lengths), slo, is_brief=is_brief
        )
        if answer.nearest is None:
            best = FullLoad(answer.test.deployment, demand)
            return best, answer.capacity.per_s * best.output_tokens, True
    loads = (FullLoad(deployment, demand) for deployment in deployments)
    best = min(loads, key=lambda load: load.instance_s_per_token)
    return best, best.tokens_per_s, False if slo else None


@dataclass(frozen=True)
class FullLoad:
    """A deployment at full load: every replica always decodes as many sequences as it may.

    Attributes:
        deployment: replicas of the model and their layout.
        demand: lengths of requests and answers, the same for all.
    """

    deployment: Deployment
    demand: Demand

    @property
    def sequences(self) -> int:
        """Sequences in the decode batch of a replica."""
        return self.deployment.engine.max_num_seqs

    @property
    def output_tokens(self) -> float:
        """Mean tokens of an answer."""
        return self.demand.synthetic.outputs.mean

    @property
    def cycle_s(self) -> float:
        """Seconds in which a replica serves all its sequences, from prefill to the last token."""
        return request_s(self.deployment, self.demand.synthetic)

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all replicas."""
        cycle_s = self.cycle_s
        return self.deployment.replicas * self.sequences * self.output_tokens / cycle_s

    def tokens_per_s_at(self, concurrency: int) -> float:
        """Output tokens a second of all replicas, each with `concurrency` requests in flight."""
        steps, engine = self.deployment.steps, self.deployment.engine
        prompt_s = steps.prefill(1, engine.bucket(self.demand.synthetic.inputs.mean), 0).time_s
        decode_s = steps.decode(concurrency, engine.max_model_len).time_s / engine.tokens_per_step
        cycle_s = concurrency * prompt_s + self.output_tokens * decode_s
        return self.deployment.replicas * concurrency * self.output_tokens / cycle_s

    @property
    def instance_s_per_token(self) -> float:
        """Instance-seconds of a token."""
        return self.deployment.instances / self.tokens_per_s

    def speed(self, tokens_per_s: float, is_met: bool | None) -> Speed:
        """Speed of the deployment at a rate, with the uncertainty and parts of its steps.

        Args:
            tokens_per_s: output tokens a second of all replicas.
            is_met: True if the latency SLO is met; None without an SLO.
        """
        deployment, engine = self.deployment, self.deployment.engine
        prompt = deployment.steps.prefill(1, engine.bucket(self.demand.synthetic.inputs.mean), 0)
        decode = deployment.steps.decode(self.sequences, engine.max_model_len)
        decode_share = self.output_tokens * decode.time_s / engine.tokens_per_step / self.cycle_s
        chip = deployment.machine.chip
        family, main_step = (TPOT, decode) if decode_share >= 1 / 2 else (TTFT, prompt)
        prompts_s = self.sequences * prompt.time_s / self.output_tokens
        parts = {cause: 1e3 * time_s for cause, time_s in decode.parts_s.items() if time_s}
        return Speed(
            units_per_s=tokens_per_s,
            group=deployment.instances,
            sigmas=phase_sigmas(chip, Phase.DECODE, decode.sigma, decode_share)
            | phase_sigmas(chip, Phase.PREFILL, prompt.sigma, 1 - decode_share),
            family=family.name,
            is_validated=family.is_accurate and main_step.is_validated,
            error=family.error,
            is_met=is_met,
            layout=f"{deployment.size_text}, {counted(self.sequences, 'sequence')}"
            + (", as ported" * deployment.options.is_ported),
            ms={"prompts of others": 1e3 * prompts_s, **parts},
            notes=main_step.evidence,
        )

"""Search of the cheapest layout among those that a user's options leave open."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import BadInput, EmulatorError, InternalError, OutOfMemory
from trnsim.estimate.times import LayerTimes
from trnsim.place.machine import Machine
from trnsim.system.serve.demand import Demand, Slo, request_s
from trnsim.system.serve.figures import RunFigures, run_once
from trnsim.system.serve.load import Load, is_closed, share_of_load
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import (
    Deployment,
    candidates,
    deploy,
    fleet,
    legal_tensors,
    served_model,
)
from trnsim.system.serve.step import ReplicaSteps
from trnsim.workload.architecture import Architecture

_MOST_SEQUENCES: Final = 256
_TRIED_COST_RATIO: Final = 1.25
"""Largest ratio of a deployment's guessed cost to the lowest one with which a run tries it."""
_TRIAL_REQUESTS: Final = 256
"""Requests of a run of the search."""
_EQUAL_COST_RATIO: Final = 1.02
"""Ratio below which costs count as equal; then the faster deployment is taken."""
_MOST_STAGES: Final = 64


@dataclass(frozen=True)
class Trial:
    """A deployment with the results of a short run.

    Attributes:
        cost: instance-seconds of an output token.
        e2e_s: seconds of a request.
        is_met: whether the demand is served within the SLO.
        tried: deployments that were tried in all.
    """

    deployment: Deployment
    cost: float
    e2e_s: float
    is_met: bool
    tried: int = 1

    def is_better(self, other: Trial | None) -> bool:
        """True if this deployment is to be preferred to `other`."""
        if other is None or self.is_met != other.is_met:
            return self.is_met or other is None
        if max(self.cost, other.cost) < _EQUAL_COST_RATIO * min(self.cost, other.cost):
            return self.e2e_s < other.e2e_s
        return self.cost < other.cost


@dataclass(frozen=True)
class SmallerSplit:
    """Fewer tensor ranks that are not slower.

    Attributes:
        tensor: ranks of a layer.
        e2e_s: seconds of a request on them, in a short run.
        asked_e2e_s: seconds of the same request on the requested number of ranks.
    """

    tensor: int
    e2e_s: float
    asked_e2e_s: float


class Search:
    """The deployments that options leave open, compared by short runs of the median times."""

    def __init__(
        self,
        model: Architecture,
        machine: Machine,
        options: ServerOptions,
        demand: Demand,
        requests: Load | None,
        slo: Slo,
        times: LayerTimes | None,
    ) -> None:
        self.model = model
        self.machine = machine
        self.options = options
        self.demand = demand
        self.requests = requests
        self.slo = slo
        self.times = times

    def best(self) -> Trial:
        """The best deployment.

        Raises:
            EmulatorError: no deployment is possible; the reason is that of the smallest one.
        """
        fitting = self.deployments()
        if self.requests is None:
            fitting.sort(key=self._rough_cost)
        trial = self._cheapest(fitting)
        return replace(trial, tried=len(fitting))

    def deployments(self) -> list[Deployment]:
        """All deployments that the options allow and that memory has room for.

        Those of one split share the times of their steps.

        Raises:
            EmulatorError: no deployment is possible; the reason is that of the smallest one.
        """
        fitting: list[Deployment] = []
        refused: EmulatorError | None = None
        steps: dict[tuple[int | None, int], ReplicaSteps] = {}
        for options in self._open_options():
            try:
                deployment = deploy(self.model, self.machine, options, self.times)
            except (BadInput, OutOfMemory) as error:
                refused = refused or error
                continue
            if self.times is None:  # the sources of measured times are those of one layout
                split = options.tensor, options.stages
                deployment = replace(deployment, steps=steps.setdefault(split, deployment.steps))
            fitting.append(deployment)
        if not fitting:
            raise refused or BadInput(f"no layout of {self.machine.name} can serve this")
        return fitting

    def smaller_split(self, deployment: Deployment) -> SmallerSplit | None:
        """The fewest tensor ranks, below the requested number, on which a request takes no longer.

        None if the number was searched, since a search tries all, or if there are none.
        """
        if self.options.tensor is None:
            return None
        least_s = self._run_trial(deployment).e2e_s
        options = replace(self.options, instances=deployment.instances)
        for tensor in legal_tensors(deployment.model, self.machine):
            if tensor >= self.options.tensor:
                break
            sequences = deployment.engine.max_num_seqs
            choice = replace(
                options,
                tensor=tensor,
                max_num_seqs=sequences,
                max_model_len=deployment.engine.max_model_len,
            )
            try:
                e2e_s = self._run_trial(deploy(self.model, self.machine, choice, self.times)).e2e_s
            except (BadInput, OutOfMemory):
                continue
            if e2e_s <= _EQUAL_COST_RATIO * least_s:
                return SmallerSplit(tensor, e2e_s, least_s)
        return None

    def _cheapest(self, fitting: list[Deployment]) -> Trial:
        """The cheapest deployment; at saturation only those of a low guessed cost are run."""
        limit = (
            math.inf
            if self.requests is not None
            else _TRIED_COST_RATIO * self._rough_cost(fitting[0])
        )
        best: Trial | None = None
        for deployment in fitting:
            if self.requests is None and self._rough_cost(deployment) > limit:
                break
            trial = self._run_trial(deployment)
            best = trial if trial.is_better(best) else best
        if best is None:
            raise InternalError("no layout was tried")
        return best

    def _rough_cost(self, deployment: Deployment) -> float:
        """The guessed cost of a token of a saturated deployment, without any queueing."""
        drawn = self.demand.drawn
        tokens = deployment.engine.max_num_seqs * drawn.outputs.mean * len(deployment.decoding)
        return deployment.instances * request_s(deployment, drawn) / tokens

    def _open_options(self) -> Iterator[ServerOptions]:
        """The options, with each choice of those that are not set."""
        options = self.options
        if options.tensor is not None:
            yield from self._batches(options)
            return
        model = served_model(self.model, options, self.machine)
        tensors = [
            tensor
            for tensor in legal_tensors(model, self.machine)
            if tensor * options.expert <= self.machine.ranks
        ]
        fitting = [
            tensor for tensor in tensors if self._holds_sequence(replace(options, tensor=tensor))
        ]
        if fitting:
            for tensor in fitting:
                yield from self._batches(replace(options, tensor=tensor))
        else:
            yield from self._batches(self._with_stages(replace(options, tensor=max(tensors))))

    def _holds_sequence(self, options: ServerOptions) -> bool:
        """True if a replica holds one sequence."""
        try:
            deploy(self.model, self.machine, _single_sequence(options), self.times)
        except (BadInput, OutOfMemory):
            return False
        return True

    def _with_stages(self, options: ServerOptions) -> ServerOptions:
        """The options with the fewest stages, each an instance, that hold the model."""
        if options.pipeline or not self.machine.instance.efa_bytes_per_s:
            return options
        for stages in range(2, _MOST_STAGES + 1):
            more = replace(options, pipeline=stages)
            if self._holds_sequence(more):
                return more
        return options

    def _batches(self, options: ServerOptions) -> Iterator[ServerOptions]:
        if options.max_num_seqs is not None:
            yield options
            return
        try:
            replicas, _ = fleet(self.machine, options)
        except BadInput:
            replicas = 1  # what is wrong is told when it is deployed
        decoding = max(replicas - options.prefill_replicas, 1)
        for sequences in candidates(self.machine, _most_sequences(self.requests, decoding)):
            yield replace(options, max_num_seqs=sequences)

    def _run_trial(self, deployment: Deployment) -> Trial:
        """A short run of one replica of a deployment."""
        count = 1 if deployment.options.prefill_replicas else deployment.replicas
        if self.requests is None:
            load = self.demand.busy(replace(deployment, replicas=deployment.replicas // count))
        else:
            load, count = share_of_load(self.requests, count, _TRIAL_REQUESTS)
        values = self._run(deployment, load).values
        return Trial(
            deployment,
            deployment.instances / values["output_tokens_per_s"] / count,
            values["e2e_p50_s"],
            self.slo.is_met(RunFigures(values, {})),
        )

    def _run(self, deployment: Deployment, load: Load) -> RunFigures:
        is_apart = deployment.options.prefill_replicas > 0
        replica = deployment if is_apart else replace(deployment, replicas=1)
        router, seed = self.demand.router, self.demand.drawn.seed
        return run_once(replica, load, router=router, seed=seed)[1]


def _most_sequences(requests: Load | None, replicas: int) -> int:
    """Most sequences that a replica has at once."""
    if requests is None or not is_closed(requests):
        return _MOST_SEQUENCES
    clients = sum(request.after is None for request in requests)
    return min(-(-clients // replicas), _MOST_SEQUENCES)


def _single_sequence(options: ServerOptions) -> ServerOptions:
    """The options with one sequence at a time, to check that the weights fit."""
    return replace(options, max_num_seqs=options.max_num_seqs or 1, batches=())

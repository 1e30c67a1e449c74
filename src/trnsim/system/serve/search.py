"""Search of the cheapest layout among those that a user's options allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import BadInput, EmulatorError, OutOfMemory
from trnsim.estimate.times import LayerTimes
from trnsim.place.machine import Machine
from trnsim.system.serve.demand import Demand, Slo, request_s
from trnsim.system.serve.figures import RunFigures, run_once
from trnsim.system.serve.load import Load, is_closed, share_of_load
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import (
    Deployment,
    deploy,
    fleet,
    sequence_candidates,
    served_model,
)
from trnsim.system.serve.step import ReplicaSteps
from trnsim.system.serve.tensor_degrees import legal_tensor_sizes
from trnsim.workload.architecture import Architecture

_MOST_SEQUENCES: Final = 256
"""Maximum number of sequences that a replica decodes together, in the search."""
_TRIED_COST_RATIO: Final = 1.25
"""Maximum ratio of a deployment's rough cost to the lowest rough cost for a trial run."""
_TRIAL_REQUESTS: Final = 256
"""Requests of a trial run."""
_EQUAL_COST_RATIO: Final = 1.02
"""Ratio below which two costs count as equal; the deployment with faster requests then wins."""
_MOST_STAGES: Final = 64
"""Maximum number of pipeline stages that the search tries."""


@dataclass(frozen=True)
class Trial:
    """A deployment with the results of its trial run.

    Attributes:
        cost: instance-seconds per output token.
        e2e_s: median time of a request, in seconds.
        is_met: whether the run keeps the SLO.
        tried: number of deployments in the search.
    """

    deployment: Deployment
    cost: float
    e2e_s: float
    is_met: bool
    tried: int = 1

    def is_better(self, other: Trial) -> bool:
        """True if this deployment is to be preferred to `other`."""
        if self.is_met != other.is_met:
            return self.is_met
        if max(self.cost, other.cost) < _EQUAL_COST_RATIO * min(self.cost, other.cost):
            return self.e2e_s < other.e2e_s
        return self.cost < other.cost


@dataclass(frozen=True)
class SmallerSplit:
    """A tensor parallel size below the requested one that is not slower.

    Attributes:
        tensor: the smaller tensor parallel size.
        e2e_s: median time of a request with it, in a trial run, in seconds.
        requested_e2e_s: the same with the requested size.
    """

    tensor: int
    e2e_s: float
    requested_e2e_s: float


@dataclass(frozen=True)
class Search:
    """The deployments that options allow, compared by trial runs at median times of steps.

    Attributes:
        model: the architecture.
        machine: an instance, with the devices that serve.
        options: the user's settings; a setting of None is searched.
        demand: the requests and how they are placed.
        requests: the requests of the demand; None for a saturating demand or an open rate.
        slo: the limits.
        times: times of layers; None for the project's own.
    """

    model: Architecture
    machine: Machine
    options: ServerOptions
    demand: Demand
    requests: Load | None
    slo: Slo
    times: LayerTimes | None = None

    def best(self) -> Trial:
        """The trial of the best deployment.

        Raises:
            EmulatorError: if no deployment is possible: the error of the first one tried.
        """
        deployments = self.deployments()
        if self.requests is None:
            deployments.sort(key=self._rough_cost)
        trial = self._cheapest(deployments)
        return replace(trial, tried=len(deployments))

    def deployments(self) -> list[Deployment]:
        """All deployments that the options allow and that fit in memory.

        Deployments of the same tensor ranks and stages share the estimates of their steps.

        Raises:
            EmulatorError: if no deployment is possible: the error of the first one tried.
        """
        deployments: list[Deployment] = []
        first_error: EmulatorError | None = None
        steps: dict[tuple[int | None, int], ReplicaSteps] = {}
        for options in self._open_options():
            try:
                deployment = deploy(self.model, self.machine, options, self.times)
            except (BadInput, OutOfMemory) as error:
                first_error = first_error or error
                continue
            if self.times is None:  # with measured times each layout keeps its own list of sources
                sizes = options.tensor, options.stages
                deployment = replace(deployment, steps=steps.setdefault(sizes, deployment.steps))
            deployments.append(deployment)
        if not deployments:
            raise first_error or BadInput(f"no layout of {self.machine.name} can serve this")
        return deployments

    def smaller_split(self, deployment: Deployment) -> SmallerSplit | None:
        """The smallest tensor parallel size, below the requested one, that is not slower.

        None if there is no such size, or if the user requested no size: the search has then tried
        all of them.
        """
        if self.options.tensor is None:
            return None
        least_s = self._run_trial(deployment).e2e_s
        options = replace(self.options, instances=deployment.instances)
        for tensor in legal_tensor_sizes(deployment.model, self.machine):
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

    def _cheapest(self, deployments: list[Deployment]) -> Trial:
        """The trial of the cheapest deployment; at saturation only cheap ones by rough cost run."""
        if self.requests is None:
            limit = _TRIED_COST_RATIO * self._rough_cost(deployments[0])
            deployments = [
                deployment for deployment in deployments if self._rough_cost(deployment) <= limit
            ]
        best, *other_trials = map(self._run_trial, deployments)
        for trial in other_trials:
            best = trial if trial.is_better(best) else best
        return best

    def _rough_cost(self, deployment: Deployment) -> float:
        """Guessed instance-seconds per output token of a saturated deployment, without queueing."""
        synthetic = self.demand.synthetic
        tokens = (
            deployment.engine.max_num_seqs
            * synthetic.outputs.mean
            * len(deployment.decode_replicas)
        )
        return deployment.instances * request_s(deployment, synthetic) / tokens

    def _open_options(self) -> Iterator[ServerOptions]:
        """The options with each combination of values for the options that are not set."""
        options = self.options
        if options.tensor is not None:
            yield from self._batches(options)
            return
        model = served_model(self.model, options, self.machine)
        choices = [
            replace(options, tensor=tensor)
            for tensor in legal_tensor_sizes(model, self.machine)
            if tensor * options.expert <= self.machine.ranks
        ] or [replace(options, tensor=1)]  # which `deploy` refuses, with the reason
        fitting_choices = list(filter(self._holds_sequence, choices))
        for choice in fitting_choices or [self._with_stages(choices[-1])]:
            yield from self._batches(choice)

    def _holds_sequence(self, options: ServerOptions) -> bool:
        """True if a replica's memory holds the model and one sequence, or as many as are set."""
        minimal_options = replace(options, max_num_seqs=options.max_num_seqs or 1, batches=())
        try:
            deploy(self.model, self.machine, minimal_options, self.times)
        except (BadInput, OutOfMemory):
            return False
        return True

    def _with_stages(self, options: ServerOptions) -> ServerOptions:
        """The options with the fewest pipeline stages, each an instance, that hold the model."""
        if options.pipeline or not self.machine.instance.efa_bytes_per_s:
            return options
        for stages in range(2, _MOST_STAGES + 1):
            stage_options = replace(options, pipeline=stages)
            if self._holds_sequence(stage_options):
                return stage_options
        return options

    def _batches(self, options: ServerOptions) -> Iterator[ServerOptions]:
        if options.max_num_seqs is not None:
            yield options
            return
        try:
            replicas, _ = fleet(self.machine, options)
        except BadInput:
            replicas = 1  # `deploy` raises the error again, to its caller
        most_sequences = _most_sequences(self.requests, max(replicas - options.prefill_replicas, 1))
        for sequences in sequence_candidates(self.machine, most_sequences):
            yield replace(options, max_num_seqs=sequences)

    def _run_trial(self, deployment: Deployment) -> Trial:
        """A trial run of one replica, or of the whole deployment if it has prefill replicas."""
        count = 1 if deployment.options.prefill_replicas else deployment.replicas
        replica = replace(deployment, replicas=deployment.replicas // count)
        if self.requests is None:
            load = self.demand.saturating_load(replica)
        else:
            load, count = share_of_load(self.requests, count, _TRIAL_REQUESTS)
        router, seed = self.demand.router, self.demand.synthetic.seed
        values = run_once(replica, load, router=router, seed=seed)[1].values
        return Trial(
            deployment,
            deployment.instances / values["output_tokens_per_s"] / count,
            values["e2e_p50_s"],
            self.slo.is_met(RunFigures(values, {})),
        )


def _most_sequences(requests: Load | None, replicas: int) -> int:
    """Maximum number of sequences that a replica decodes together: its clients of a closed load."""
    if requests is None or not is_closed(requests):
        return _MOST_SEQUENCES
    clients = sum(request.after is None for request in requests)
    return min(-(-clients // replicas), _MOST_SEQUENCES)

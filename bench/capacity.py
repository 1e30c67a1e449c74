"""Whether `plan serve` finds the least cost, and whether its capacity is one.

usage: capacity.py [--cases N] [--seeds N] [--only WORD]

For each of 40 small cases: every layout is run at the rate that one instance less than the plan's
would have to keep, and none keeps it; the plan's own layout keeps its rate. Then the layout that
was found is run with requests of other seeds: 0.95 of its capacity is kept, 1.05 is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from trnsim.place.machine import machine
from trnsim.system.serve.capacity import LONGEST_RUN, LoadTest, RequestPattern
from trnsim.system.serve.demand import Demand, Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import ServingPlan, plan
from trnsim.system.serve.search import Search
from trnsim.system.serve.sizing import Spare, unit_of, units_of_spare
from trnsim.workload.config import read

MODEL = read(Path(__file__).parents[1] / "examples" / "llama-3.1-8b.json")
PLACES = {
    "inf2.xlarge": ServerOptions(),
    "trn1.32xlarge": ServerOptions(tensor=8),
    "trn2.48xlarge": ServerOptions(tensor=4),
    "g6e.xlarge": ServerOptions(),
}
FIXED = (Lengths("fixed", 800), Lengths("fixed", 100))
UNIFORM = (Lengths("uniform", 100, 900), Lengths("uniform", 20, 180))
LONG = (Lengths("fixed", 1500), Lengths("fixed", 250))
QUESTIONS = (
    (FIXED, Slo(0.5, 0.1), 1.0),
    (FIXED, Slo(1.0, 0.05), 7.0),
    (FIXED, Slo(2.0), 30.0),
    (FIXED, Slo(None, 0.08), 90.0),
    (FIXED, Slo(), 12.0),
    (UNIFORM, Slo(0.5, 0.1), 3.0),
    (UNIFORM, Slo(1.0, 0.06), 50.0),
    (UNIFORM, Slo(), 120.0),
    (LONG, Slo(1.5, 0.1), 2.0),
    (LONG, Slo(3.0, 0.06), 25.0),
)
PARTS = ((0.95, True), (1.05, False))


@dataclass(frozen=True)
class Case:
    """A question about one instance type.

    Attributes:
        on: the instance type.
        lengths: of prompts and answers.
        slo: the limits.
        rate_per_s: requests a second.
    """

    on: str
    lengths: tuple[Lengths, Lengths]
    slo: Slo
    rate_per_s: float

    @property
    def demand(self) -> Demand:
        """The load."""
        return Demand(None, Synthetic(*self.lengths, 1000, rate_per_s=self.rate_per_s))

    @property
    def text(self) -> str:
        """The case in words."""
        inputs, outputs = self.lengths
        sizes = f"{inputs.kind} {inputs.mean:g}+{outputs.mean:g}"
        limits = " ".join(f"{name} {limit:g}" for name, limit in self.slo.by_name.items())
        return f"{self.on:13} {sizes:16} {limits or 'knee':16} {self.rate_per_s:4g}/s"

    def planned(self) -> ServingPlan:
        """The plan's answer."""
        return plan(MODEL, machine(self.on), PLACES[self.on], self.demand, slo=self.slo)

    def tests(self, seed: int = 0) -> list[LoadTest]:
        """Runs of every layout."""
        demand = self.demand
        longest = demand.longest
        options = replace(PLACES[self.on], max_model_len=longest)
        looking = Search(MODEL, machine(self.on), options, demand, None, self.slo, None)
        pattern = RequestPattern(replace(demand.synthetic, seed=seed), None, longest)
        units = [unit_of(deployment) for deployment in looking.deployments()]
        return [LoadTest(unit, pattern, Router.ROUND_ROBIN) for unit in units]


CASES = [Case(on, *question) for question in QUESTIONS for on in PLACES]


def fewest(case: Case, instances: int, spare: Spare, count: int) -> int:
    """The fewest instances on which a layout keeps the rate in `count` requests, or `instances`."""
    for test in case.tests():
        limits = test.limits(case.slo)
        if not limits.is_met(test.unloaded_figures()):
            continue
        spare_units = units_of_spare(spare, test.deployment.replicas)
        while instances - 1 > spare_units and test.is_within(
            limits, case.rate_per_s / (instances - 1 - spare_units), count
        ):
            instances -= 1
    return instances


def kept(case: Case, found: ServingPlan, seeds: int) -> list[tuple[float, bool, bool]]:
    """Parts of the capacity, whether other requests keep them, and whether they should."""
    answer = found.answer
    outcomes = []
    for seed in range(1, seeds + 1):
        drawn = replace(case.demand.synthetic, seed=seed)
        pattern = RequestPattern(drawn, None, answer.test.pattern.longest)
        test = LoadTest(answer.test.deployment, pattern, Router.ROUND_ROBIN)
        for part, should in PARTS:
            rate = part * answer.capacity.per_s
            is_kept = test.is_within(answer.capacity.limits, rate, LONGEST_RUN)
            outcomes.append((part, is_kept, should))
    return outcomes


def checked(case: Case, seeds: int) -> tuple[str, bool, int, int]:
    """A line about a case, whether the cost is the least, and outcomes that are right, and all."""
    start = time.process_time()
    found = case.planned()
    took_s = time.process_time() - start
    answer = found.answer
    if answer.nearest is not None:
        is_none = all(
            not test.limits(case.slo).is_met(test.unloaded_figures()) for test in case.tests()
        )
        return f"{case.text} infeasible {took_s:5.1f} s", is_none, 0, 0
    least = fewest(case, found.deployment.instances, answer.sizing.spare, answer.capacity.requests)
    outcomes = kept(case, found, seeds)
    right = sum(is_kept is should for _, is_kept, should in outcomes)
    is_least = least == found.deployment.instances
    line = (
        f"{case.text} {found.deployment.instances:4} instances, least {least:4}; "
        f"{answer.capacity.per_s:7.3g}/s of one, {answer.capacity.binding:4} error "
        f"{answer.capacity.error:.3f}; {right} of {len(outcomes)}; {took_s:5.1f} s"
    )
    return line + ("" if is_least else "  NOT THE LEAST"), is_least, right, len(outcomes)


def main() -> bool:
    """All cases; true if a cost is not the least."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=len(CASES))
    parser.add_argument("--seeds", type=int, default=1, help="of requests of each capacity")
    parser.add_argument("--only", default="", help="a word of a case")
    given = parser.parse_args()
    chosen = [case for case in CASES if given.only in case.text][: given.cases]
    least = right = count = 0
    for case in chosen:
        line, is_least, of_case, all_of_case = checked(case, given.seeds)
        print(line, flush=True)
        least, right, count = least + is_least, right + of_case, count + all_of_case
    print(f"{least} of {len(chosen)} at the least cost; {right} of {count} loads as they should be")
    return least < len(chosen)


if __name__ == "__main__":
    sys.exit(main())

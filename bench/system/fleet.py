"""A year of half a million chips: simulated in steps of 5 minutes, and planned hour by hour.

`fleet.py [--days DAYS] [--curves CURVES]`. Each hour is planned again with the coming day in sight.
Seconds are of this machine, beside those of numpy's sort of ten million numbers in the same run.
Then demand curves known to both: USD of the solver's own plan beside the threshold policy's.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from trnsim.system.fleet.conditions import drawn_conditions, forecast_conditions
from trnsim.system.fleet.demand import shaped_curve
from trnsim.system.fleet.policies import threshold
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.simulate import simulate
from trnsim.system.fleet.solver import solver_plan
from trnsim.system.fleet.worth import perfect_usd, planned_usd

EXAMPLES = Path(__file__).parents[2] / "examples"
SIMULATED_S, PLANNED_S = 60.0, 600.0
YEAR_DAYS = 365


def reference():
    """Seconds that numpy takes to sort ten million numbers."""
    numbers = np.random.default_rng(0).random(10_000_000)
    start = time.perf_counter()
    np.sort(numbers)
    return time.perf_counter() - start


def rainier(days):
    """The example of half a million chips, for a number of days."""
    text = (EXAMPLES / "rainier.yaml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rainier.yaml"
        path.write_text(text.replace("days: 7", f"days: {days}"), encoding="utf-8")
        return read(path)


def timed(function, *arguments):
    """What a function gives, and its seconds."""
    start = time.perf_counter()
    found = function(*arguments)
    return found, time.perf_counter() - start


def year(days, sort_s):
    """Whether planning or simulating takes too long, of the part of a year."""
    scenario = rainier(days)
    plan, planned_s = timed(solver_plan, scenario)

    def run():
        return simulate(scenario, plan, drawn_conditions(scenario, 1, 0))

    outcome, simulated_s = timed(run)
    print(
        f"{scenario.fleet.chips:,} chips, {days} days: planned in {planned_s:.1f} s "
        f"({planned_s / sort_s:.0f} sorts), simulated in {simulated_s:.2f} s "
        f"({simulated_s / sort_s:.1f} sorts); used {outcome.utilisation[0]:.1%}, "
        f"missed {outcome.missed_part[0]:.2%}",
        flush=True,
    )
    part = days / YEAR_DAYS
    return planned_s > PLANNED_S * part or simulated_s > SIMULATED_S * part


def curves(count):
    """USD of both policies on curves that both know: how often the solver's own is the lower."""
    base = read(EXAMPLES / "fleet.yaml")
    lower, shares, gains = 0, [], []
    for number in range(count):
        draw = np.random.default_rng(number)
        wave = np.sin((np.arange(24) + draw.uniform(0, 24)) / 24 * 2 * np.pi)
        hours = np.clip(0.55 + 0.35 * wave + draw.normal(0, 0.08, 24), 0.05, 1).tolist()
        peak = draw.uniform(600, 1400)
        curve = shaped_curve(base.start, base.steps, peak, hours)
        scenario = replace(base, services=(replace(base.services[0], curve=curve),))
        conditions = forecast_conditions(scenario)
        plans = [make(scenario) for make in (solver_plan, threshold)]
        one, two = (simulate(scenario, plan, conditions) for plan in plans)
        lower += bool(one.usd[0] <= two.usd[0] and one.missed.sum() <= two.missed.sum() + 1e-6)
        gains.append((two.usd[0] - one.usd[0]) / (two.cost_usd[0] - two.usd[0]))
        shares.append(planned_usd(scenario, plans[0]) / perfect_usd(scenario))
    print(
        f"{count} curves known to both: the solver's own plan costs at most the threshold's on "
        f"{lower}; it trains for {np.median(gains):.1%} more USD ({min(gains):.1%} to "
        f"{max(gains):.1%}), {np.median(shares):.1%} of perfect sharing"
    )


def main():
    """A year, or part of one; then curves that both policies know."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=YEAR_DAYS)
    parser.add_argument("--curves", type=int, default=20)
    given = parser.parse_args()
    sort_s = reference()
    print(f"numpy sorts ten million numbers in {sort_s:.2f} s")
    is_late = year(given.days, sort_s)
    curves(given.curves)
    return is_late


if __name__ == "__main__":
    sys.exit(main())

"""The kernels of examples/tune: what `trnsim tune` finds beside the best of all settings.

    python bench/tuning.py

Each line has the number of settings, of trials, the best time that the search found, how much
longer that is than the best of all settings, the time of the kernel as it is written, and the gain
over that with its P10 to P90 under equal draws of the model's constants.
"""

from __future__ import annotations

from pathlib import Path

from trnsim import arch
from trnsim.gate.checking import signed_us
from trnsim.gate.kernel_file import cases, module_of
from trnsim.tune.space import space_of
from trnsim.tune.trial import trial_result
from trnsim.tune.tuning import TuningEffort, tune

EXAMPLES = Path(__file__).parents[1] / "examples" / "tune"
CHIP = arch.target("trn2")


def space(name):
    """The settings of a kernel of examples/tune."""
    file = EXAMPLES / f"{name}.py"
    (case,) = cases(file, module_of(file))
    return space_of(case)


def names():
    """The kernels."""
    return sorted(file.stem for file in EXAMPLES.glob("*.py"))


def best_of_all_us(settings):
    """The time of the fastest of all settings."""
    results = [trial_result(settings, setting, CHIP) for setting in settings.settings()]
    return min(result["time_us"] for result in results if "time_us" in result)


def row(name):
    """What the search finds for a kernel, and the best of all."""
    settings = space(name)
    tuning = tune(settings, CHIP, TuningEffort())
    best = tuning.timed[0]
    shift = tuning.shift(best, tuning.default_trial)
    longer = best.time_us / best_of_all_us(settings) - 1
    low, high = shift.interval_us.p10, shift.interval_us.p90
    gain = f"{signed_us(shift.change_us)} ({signed_us(low)} to {signed_us(high)})"
    return (
        f"{name:10} {len(settings):8} {len(tuning.trials):6} {best.time_us:9.2f} us {longer:6.1%} "
        f"{tuning.default_trial.time_us:9.2f} us  "
        f"{gain if shift.is_significant else 'none that can be told'}"
    )


def main():
    """Print a line for each kernel."""
    print("kernel     settings trials   best found longer    as written  gain")
    for name in names():
        print(row(name), flush=True)


if __name__ == "__main__":
    main()

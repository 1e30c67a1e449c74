import math
import os
from itertools import product
from pathlib import Path

import nki.isa as nisa
import numpy as np
import pytest
from tuned_kernels import X, parted_case

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.gate.kernel_file import cases, module_of
from trnsim.system import search
from trnsim.tune import tuning as tuning_module
from trnsim.tune.space import space_of
from trnsim.tune.trial import trial_result
from trnsim.tune.tuning import LEAST, Tuning, TuningEffort, TuningTrial, tune

TRN2 = arch.target("trn2")
SIZES = {"parts": (1, 2, 4, 8, 16), "works_on": (1, 2, 3, 4), "extra": (0, 1, 2, 3)}
SPACE = space_of(parted_case(SIZES, keywords={"works_on": 1}))
"""A space of 80 settings, whose times are those of a function."""


def searched(monkeypatch, time_us, space=SPACE, **effort):
    """A search on times that a function of the values gives; a text is a refusal."""
    asked = []

    def map_(_function, points, **_options):
        results = []
        for setting, limit_us in points:
            asked.append((tuple(setting), limit_us))
            result = time_us(**space.values(tuple(setting)))
            if isinstance(result, KeyboardInterrupt):
                raise result
            if isinstance(result, tuple):
                results.append({"kind": result[0], "error": result[1]})
                continue
            draws = [result * (1 + draw / 100) for draw in range(10)]
            results.append(
                {"time_us": result, "draws_us": draws, "busiest": "DMA", "busy_share": 0.5}
            )
        return results

    monkeypatch.setattr(search, "map", map_)
    return tune(space, TRN2, TuningEffort(**effort)), asked


def separable(parts, works_on, extra):
    return 10.0 + abs(parts - 4) + 2 * works_on + extra


def with_interplay(parts, works_on, extra):
    return 10.0 + abs(math.log2(parts) - works_on) + 3 * extra + 0.1 * parts


@pytest.mark.parametrize("time_us", [separable, with_interplay])
def test_a_fifth_of_the_trials_finds_the_best(monkeypatch, time_us):
    tuning, asked = searched(monkeypatch, time_us)
    assert len(asked) <= len(SPACE) / 5
    best = min(time_us(*values) for values in product(*(p.values for p in SPACE.parameters)))
    assert tuning.timed[0].time_us <= 1.02 * best


def test_no_setting_is_tried_twice_and_each_has_the_best_time_as_its_limit(monkeypatch):
    _, asked = searched(monkeypatch, separable)
    assert len({setting for setting, _ in asked}) == len(asked)
    limits = [limit for _, limit in asked[1:]]
    assert asked[0][1] is None
    assert limits == sorted(limits, reverse=True)


def test_all_settings_are_tried_where_there_are_few(monkeypatch):
    space = space_of(parted_case({"parts": (1, 2, 4), "extra": (0, 1)}))
    tuning, _ = searched(monkeypatch, lambda parts, extra: 9 - parts + extra, space)
    assert len(tuning.trials) == len(space) < LEAST


@pytest.mark.parametrize(("runs", "tried"), [(1, 1), (5, 5), (1000, 80)])
def test_the_number_of_trials_may_be_given(monkeypatch, runs, tried):
    tuning, _ = searched(monkeypatch, separable, runs=runs)
    assert len(tuning.trials) == tried
    with pytest.raises(BadInput, match="--runs 0; legal: from 1 on"):
        searched(monkeypatch, separable, runs=0)


def test_a_value_that_is_never_legal_comes_last_after_one_refusal(monkeypatch):
    def refusing(parts, works_on, extra):
        return ("BadInput", "no") if works_on == 3 else separable(parts, works_on, extra)

    tuning, asked = searched(monkeypatch, refusing)
    third = SPACE.parameters[1].values.index(3)
    assert len([setting for setting, _ in asked if setting[1] == third]) == 1
    assert tuning.timed[0].time_us == 12


def test_a_refusal_of_a_combination_blames_no_value_for_ever(monkeypatch):
    def refusing(parts, works_on, extra):
        is_refused = parts == 8 and extra == 0
        return ("BadInput", "no") if is_refused else 30.0 - parts - extra + works_on

    tuning, _ = searched(monkeypatch, refusing, runs=80)
    assert tuning.timed[0].time_us == 12


def test_what_is_larger_than_one_that_exceeded_a_memory_is_not_tried(monkeypatch):
    def refusals(kind):
        def exceeding(parts, works_on, extra):
            is_large = parts * (extra + 1) > 8
            return (kind, "no") if is_large else 30.0 - parts - extra + works_on

        tuning, _ = searched(monkeypatch, exceeding, runs=80)
        assert tuning.timed[0].time_us == 23
        legal = [
            1
            for parts, extra in product(SIZES["parts"], SIZES["extra"])
            if parts * (extra + 1) <= 8
        ]
        assert len(tuning.timed) == len(SIZES["works_on"]) * len(legal)
        return sum(bool(row.error) for row in tuning.trials.values())

    assert refusals("OutOfMemory") < refusals("BadInput") / 2


def test_an_own_setting_that_is_not_legal_is_no_end(monkeypatch):
    def refusing(parts, works_on, extra):
        return ("BadInput", "no") if parts == 4 else separable(parts, works_on, extra)

    tuning, _ = searched(monkeypatch, refusing)
    assert not tuning.default_trial.is_timed
    assert tuning.timed[0].is_timed


def test_a_range_that_is_illegal_throughout_is_named(monkeypatch):
    with pytest.raises(BadInput) as refused:
        searched(monkeypatch, lambda **_: ("IllegalInstruction", "129 partitions"))
    assert "is legal; " in refused.value.reason
    assert refused.value.reason.endswith(": 129 partitions")
    assert "none of the " in refused.value.reason
    assert "first tried: parts=4" in refused.value.fix


def test_ctrl_c_keeps_what_is_there(monkeypatch):
    def interrupted(parts, works_on, extra):
        return KeyboardInterrupt() if works_on == 2 else separable(parts, works_on, extra)

    tuning, _ = searched(monkeypatch, interrupted)
    assert tuning.is_interrupted
    assert tuning.timed
    with pytest.raises(KeyboardInterrupt):
        searched(monkeypatch, lambda **_: KeyboardInterrupt())


def test_settings_whose_difference_holds_zero_are_ties():
    tuning = Tuning(SPACE, TRN2)
    draws = tuple(float(n) for n in range(10, 20))
    first, same, apart, turned = (
        TuningTrial((0, 0, 0), 15.0, draws),
        TuningTrial((0, 0, 1), 15.0, tuple(d + (-1) ** n for n, d in enumerate(draws))),
        TuningTrial((0, 1, 0), 16.0, tuple(d + 1 for d in draws)),
        TuningTrial((0, 2, 0), 15.5, tuple(d + 0.5 for d in reversed(draws))),
    )
    tuning.trials = {row.setting: row for row in (first, same, apart, turned)}
    assert tuning.ties(first) == [same, turned]
    assert tuning.shift(apart, first).is_slower


def test_of_equal_times_the_own_setting_is_the_best():
    tuning = Tuning(SPACE, TRN2)
    rows = [TuningTrial((0, 0, 0), 15.0), TuningTrial(SPACE.default, 15.0)]
    tuning.trials = {row.setting: row for row in rows}
    assert tuning.timed[0].setting == SPACE.default


FILE = (
    "from tuned_kernels import X, parted\nparted_inputs = (X,)\n"
    "parted_parameters = {'parts': [1, 2, 4, 8], 'extra': [0, 1, 2]}\n"
)


@pytest.fixture
def of_file(tmp_path, monkeypatch):
    """The settings of a file, whose trials are cached."""
    monkeypatch.setenv("TRNSIM_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "tuning_of_a_test.py"
    file.write_text(FILE)
    (case,) = cases(file, module_of(file))
    return space_of(case)


def test_a_search_of_a_file_is_resumed_from_its_trials(of_file, monkeypatch):
    first = tune(of_file, TRN2, TuningEffort())
    timed = []
    monkeypatch.setattr("trnsim.tune.trial.trial_result", lambda *_: timed.append(1))
    again = tune(of_file, TRN2, TuningEffort())
    assert again.trials == first.trials
    assert timed == []
    assert first.timed[0].time_us <= first.default_trial.time_us


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TRNSIM_NKI", "0.3"),
        ("NKI_COMPILER_FRONTEND", "custom"),
        ("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "1"),
        ("NEURON_LOGICAL_NC_CONFIG", "1"),
    ],
)
def test_a_trial_under_another_version_or_compiler_is_another(
    of_file, monkeypatch, variable, value
):
    tune(of_file, TRN2, TuningEffort(1))
    timed = []

    def time_one(*_):
        timed.append(1)
        return {"time_us": 1.0, "draws_us": [1.0], "busiest": "DMA", "busy_share": 1.0}

    monkeypatch.setattr("trnsim.tune.trial.trial_result", time_one)
    monkeypatch.setenv(variable, value)
    tune(of_file, TRN2, TuningEffort(1))
    assert timed == [1]


@pytest.mark.slow
def test_processes_find_what_one_finds(of_file, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setenv("TRNSIM_CACHE", "off")
    alone = tune(of_file, TRN2, TuningEffort(processes=1))
    monkeypatch.setattr(tuning_module, "_MOST_IN_PROCESS_S", -1.0)
    assert tune(of_file, TRN2, TuningEffort(processes=2)).trials == alone.trials


def test_engines_are_values_too():
    space = space_of(
        parted_case({"works_on": (nisa.engine.vector, nisa.engine.gpsimd), "parts": (1, 2)})
    )
    assert space.text((1, 0)) == "works_on=gpsimd, parts=4"
    assert np.all(X == 1)


EXAMPLES = Path(__file__).parents[2] / "examples" / "tune"


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_of_each_example_a_fifth_of_the_trials_finds_the_best_of_all(file):
    (case,) = cases(file, module_of(file))
    space = space_of(case)
    tuning = tune(space, TRN2, TuningEffort())
    assert len(tuning.trials) <= max(LEAST, len(space) / 5)
    results = [trial_result(space, setting, TRN2) for setting in space.settings()]
    best_us = min(result["time_us"] for result in results if "time_us" in result)
    assert tuning.timed[0].time_us <= 1.02 * best_us

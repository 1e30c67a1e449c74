from pathlib import Path

from trnsim import arch
from trnsim.cli.tune_document import TunedKernel, tune_document
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text
from trnsim.gate.kernel_file import Arguments, KernelCase
from trnsim.tune.space import Parameter, SettingSpace
from trnsim.tune.tuning import Tuning, TuningTrial

DRAWS = tuple(float(n) for n in range(50, 70))


def tuned(*trials, **settings):
    case = KernelCase(Path("k.py"), "softmax", None, Arguments((), {}))
    tuning = Tuning(
        SettingSpace(case, (Parameter("<tile>", (1, 2, 3, 4), 0),)), arch.target("trn2")
    )
    tuning.trials = {trial.setting: trial for trial in trials}
    return TunedKernel(tuning, tuning.timed[0], None, **settings)


def trial(index, shift=0.0, **settings):
    return TuningTrial(
        (index,), 60 + shift, tuple(d + shift for d in DRAWS), "DMA", 0.9, **settings
    )


def test_a_faster_setting_is_told_with_its_interval():
    shown = text(tune_document([tuned(trial(0), trial(1, -20))]))
    assert "softmax on trn2: 1.50 times as fast, -20 us (P10 to P90 -20 us to -20 us)" in shown
    assert "as it is  <tile>=1: 60 us" in shown


def test_settings_that_cannot_be_told_apart_are_counted():
    shown = text(tune_document([tuned(trial(0), trial(1, -0.01), trial(2, 0.01))]))
    assert "no setting that was tried can be told apart from its own as faster" in shown
    assert shown.count("cannot be told apart ") == 3
    assert "2 settings cannot be told apart from the best" in shown


def test_refused_and_pruned_settings_are_counted():
    refused = TuningTrial((1,), error="129 partitions", kind="IllegalInstruction")
    shown = text(tune_document([tuned(trial(0), refused, TuningTrial((2,), beyond_us=80.0))]))
    assert "3 of 4 settings, 1 not legal, 1 left early as their bound exceeds the best" in shown


def test_settings_that_are_not_legal_say_why_the_most_frequent_reason_first():
    errors = ("too wide", "a division by 0 <", "a division by 0 <")
    refused = [TuningTrial((at + 1,), error=error) for at, error in enumerate(errors)]
    shown = text(tune_document([tuned(trial(0), *refused)]))
    assert "softmax on trn2: no setting that was tried is legal but its own\n" in shown
    first = "not legal: <tile>=3 and 1 more: a division by 0 <\n"
    assert f"{first}not legal: <tile>=2: too wide" in shown
    assert "not legal:" not in text(tune_document([tuned(trial(0), trial(1, 1))]))


def test_of_many_reasons_three_are_shown():
    case = tuned(trial(0)).tuning
    rows = [TuningTrial((at,), error=f"reason {at}") for at in range(1, 4)]
    case.trials |= {row.setting: row for row in rows} | {(9,): TuningTrial((0,), error="last")}
    shown = text(tune_document([TunedKernel(case, case.timed[0], None)]))
    assert shown.count("not legal: ") == 3
    assert "other reasons, in --json: 1" in shown


def test_a_spreadsheet_has_all_trials():
    lines = spreadsheet(
        tune_document([tuned(trial(0), trial(1, -1), TuningTrial((2,), error="no"))])
    )
    assert len(lines.splitlines()) == 4
    assert "softmax,trn2" in lines

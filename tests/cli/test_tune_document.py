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


def test_a_spreadsheet_has_all_trials():
    lines = spreadsheet(
        tune_document([tuned(trial(0), trial(1, -1), TuningTrial((2,), error="no"))])
    )
    assert len(lines.splitlines()) == 4
    assert "softmax,trn2" in lines

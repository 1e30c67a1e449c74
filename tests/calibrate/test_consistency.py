"""What a calibration predicts is what commands then answer."""

import math
from pathlib import Path

import numpy as np
import pytest
from row_cases import row

from trnsim.calibrate.answers import figures_of
from trnsim.calibrate.asking import figures_of_question
from trnsim.calibrate.calibration import calibrate
from trnsim.cli.questions import ask
from trnsim.document.values import json_text
from trnsim.price import today

ROOT = Path(__file__).parents[2]
LLAMA, BERT = "examples/llama-3.1-8b.json", "examples/bert-large.json"
SERVED = (
    f"plan serve {LLAMA} --on {{on}} --tensor-parallel-size 8 --max-num-seqs {{n}} "
    "--concurrency {n} --input-len 256 --output-len 16"
)
TRAINED = (
    f"plan train {LLAMA} --on trn1.32xlarge --instances 4 --tp 8 --pp {{pp}} --zero 1 "
    "--micro-batch 1 --global-batch 128 --budget 2"
)
QUESTIONS = [
    *(
        (SERVED.format(on=on, n=n), figure)
        for on in ("trn1", "trn2")
        for n in (1, 4)
        for figure in ("tpot", "ttft")
    ),
    *((TRAINED.format(pp=pp), "time") for pp in (1, 2)),
    *((f"plan infer {BERT} --on inf2.xlarge --batch {batch}", "time") for batch in (1, 16)),
    (f"plan layer {LLAMA} --on trn1 --phase prefill", "time"),
    *(
        (f"plan collective all_reduce --on trn1.32xlarge --bytes {size}", "time")
        for size in (1024, 1 << 26)
    ),
]
"""Questions of every command whose causes have factors."""


@pytest.mark.slow
def test_commands_answer_what_a_calibration_predicts(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    drawn = np.random.default_rng(1)
    factors, rows = {}, []
    for at, (question, figure) in enumerate(QUESTIONS):
        own = figures_of_question(question, ask)[figure]
        measured_s = own.fixed_s + sum(
            part.time_s
            * factors.setdefault(
                (own.chip, part.family, part.cause), math.exp(0.3 * drawn.standard_normal() + 0.3)
            )
            for part in own.parts
        )
        rows.append(row(measured_s, own, line=at + 2, figure=figure, question=question))
    calibration = calibrate(rows, [], today())
    assert calibration.left_out == ()
    site = tmp_path / "site.json"
    site.write_text(json_text({"schema": "calibrate/1", **calibration.values()}))
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    for each in rows:
        answered = figures_of(*ask(each.measurement.question))[each.measurement.figure]
        predicted_s = calibration.fitted.predicted_s(each)
        assert answered.time_s == pytest.approx(predicted_s, rel=0.005), each.measurement.question
        assert predicted_s == pytest.approx(each.measured_s, rel=0.1)

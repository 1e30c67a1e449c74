import json
import math

import pytest

from trnsim.calibrate.logs import read
from trnsim.errors import BadInput


def titan(number, tps="1,234"):
    return (
        f"[rank0]:2026-11-01 10:00:{number % 60:02},123 - root - INFO - \x1b[31mstep: {number:2}"
        f"\x1b[32m  loss:  {7 - number / 100:.4f}\x1b[33m  memory: 10.20GiB(12.90%)\x1b[34m  "
        f"tps: {tps}\x1b[36m  tflops: 56.70\x1b[35m  mfu: 18.10%\x1b[39m\n"
    )


def nemo(number, time="2.5", unit="s", batch=32):
    return (
        f"Training epoch 0, iteration {number}/99 | lr: 3e-05 | consumed_samples: {32 * number} | "
        f"global_batch_size: {batch} | global_step: {number} | reduced_train_loss: 7.919 | "
        f"train_step_timing in {unit}: {time}\n"
    )


def written(tmp_path, text):
    path = tmp_path / "train.log"
    path.write_text(text)
    return path


def test_torchtitans_lines_have_a_loss_and_a_rate(tmp_path):
    noise = "[rank0]:INFO - Training starts at step 1\n"
    lines = "".join(titan(number, "900" if number <= 5 else "1,234") for number in range(1, 21))
    found = read(written(tmp_path, noise + lines))
    assert (found.format, found.kind, len(found.run.steps)) == ("torchtitan", "train", 20)
    assert found.run.tokens_per_s == 1234
    assert found.run.step_s is None
    assert (found.run.steps[9].number, found.run.steps[9].loss) == (10, 6.9)


def test_nemos_lines_have_a_loss_and_a_time(tmp_path):
    found = read(written(tmp_path, "".join(nemo(number) for number in range(20))))
    assert (found.format, found.run.step_s, found.run.sequences) == ("nemo", 2.5, 32)
    assert found.run.steps[0].loss == 7.919


def test_ranks_that_log_the_same_step_count_once(tmp_path):
    found = read(written(tmp_path, "".join(titan(number) * 8 for number in range(1, 21))))
    assert len(found.run.steps) == 20


@pytest.mark.parametrize("line", [titan, nemo])
def test_a_step_whose_number_no_count_has_is_left_out(tmp_path, line):
    usual_lines = "".join(map(line, range(1, 21)))
    damaged_line = (
        line(7)
        .replace("step:  7", f"step: {'7' * 5000}")
        .replace("global_step: 7", f"global_step: {'7' * 5000}")
    )
    assert damaged_line != line(7)
    assert len(read(written(tmp_path, usual_lines + damaged_line)).run.steps) == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("".join(titan(number) for number in range(14)), "14 steps; legal: 15 or more"),
        ("".join(titan(number, "0") for number in range(20)), "tokens a second is 0.0"),
        ("".join(nemo(number, unit="ms") for number in range(20)), "timing is in ms; legal: s"),
        (
            "".join(nemo(number, batch=8 + number) for number in range(20)),
            "global_batch_size is 8,",
        ),
        ("".join(nemo(number, time="-1") for number in range(20)), "time is -1.0"),
        ("hello\n", "no log of a known kind"),
        ("", "no log of a known kind"),
    ],
)
def test_what_cannot_be_used_is_refused(text, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        read(written(tmp_path, text))


STATE = {
    "log_history": [
        *({"step": step, "loss": 3 - step / 50, "epoch": 0.1} for step in range(10, 61, 10)),
        {"step": 60, "train_runtime": 30.0, "train_steps_per_second": 2.0, "train_loss": 2.0},
    ],
    "trial_params": {"HF_TOKEN": "hunter2"},
}


def test_the_trainers_state_is_a_run_of_equal_steps(tmp_path):
    (tmp_path / "trainer_state.json").write_text(json.dumps(STATE))
    log = read(tmp_path / "trainer_state.json")
    assert log.format == "trainer"
    assert len(log.run.steps) == 60
    assert log.run.step_s == 0.5
    assert log.run.steps[59].loss == pytest.approx(1.8)
    assert "hunter2" not in repr(log)


def test_the_trainers_lines_are_a_run_too(tmp_path):
    (tmp_path / "a.log").write_text(
        "{'loss': 2.5, 'epoch': 0.1}\n{'train_runtime': '30.0', 'train_steps_per_second': '2.0'}\n"
    )
    run = read(tmp_path / "a.log").run
    assert run.step_s == 0.5
    assert len(run.steps) == 60
    assert run.steps[59].loss == 2.5  # the only one that was printed


def test_the_trainers_printed_losses_are_at_equal_distances(tmp_path):
    lines = [f"{{'loss': {loss}}}" for loss in (3.0, 2.0, 1.0)]
    end = "{'train_runtime': '30.0', 'train_steps_per_second': '2.0'}"
    (tmp_path / "a.log").write_text("\n".join([*lines, end]) + "\n")
    losses = [step.loss for step in read(tmp_path / "a.log").run.steps]
    assert all(map(math.isnan, losses[:19]))
    assert losses[19:] == [3.0] * 20 + [2.0] * 20 + [1.0]


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (STATE["log_history"][:3], "no record has train_runtime, which the Trainer writes at its"),
        (
            [*reversed(STATE["log_history"][:2]), STATE["log_history"][-1]],
            "step is 10: less than 20",
        ),
        ([{"train_runtime": 1.0, "train_steps_per_second": 0}], "train_steps_per_second is 0"),
        ([{"train_runtime": 1e9, "train_steps_per_second": 1e9}], "up to 1,000,000 steps"),
    ],
)
def test_a_trainers_state_that_cannot_be_is_refused(history, said, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"log_history": history}))
    with pytest.raises(BadInput, match=said):
        read(tmp_path / "a.json")


def test_steps_whose_clock_runs_backwards_are_named_with_their_line(tmp_path):
    stamps = [f"2026-11-20 10:00:{second:02d}" for second in range(20)]
    stamps[7] = "2026-11-20 09:59:00"
    (tmp_path / "a.log").write_text(
        "\n".join(
            f"[rank0]:{stamp} - INFO - step: {at}  loss: 2.0  tps: 1,000  mfu: 1%"
            for at, stamp in enumerate(stamps, 1)
        )
    )
    with pytest.raises(BadInput, match=r"a\.log:8: written at 2026-11-20 09:59:00, and the step "):
        read(tmp_path / "a.log")

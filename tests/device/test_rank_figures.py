import json
import os
import subprocess
import sys

import pytest

from trnsim.device import rank_figures
from trnsim.device.call_log import CallEvent, Recording, StepPhase
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.rank_figures import LastSteps, figures
from trnsim.device.steps import StepCounter


class Call:
    """A call that takes a microsecond."""

    name = operation = "aten::x"

    def time(self, target):
        from trnsim.device.call_time import CallTime  # noqa: PLC0415

        del target
        return CallTime((Cost(),))


class Cost:
    device_time_s, launch_s, flop = 1e-6, 0.0, 0.0


CALL = Call()
REDUCE = CollectiveCall("allreduce", 64, (0, 1))


def note_into(recording, one):
    if isinstance(one, StepPhase):
        recording.events.append(CallEvent(CALL, "", one, 0))
    elif one == "touch":
        recording.note_buffer_use([1])
    else:
        recording.note_collective(REDUCE, [1], one == "async")


def recorded(*what):
    found = Recording()
    for one in what:
        note_into(found, one)
    return found


FORWARD, BACKWARD, OPTIMIZER = StepPhase.forward, StepPhase.backward, StepPhase.optimizer


def test_the_last_step_is_told_with_its_exchanges():
    step = FORWARD, BACKWARD, "async", BACKWARD, OPTIMIZER
    found = figures(recorded(*step, "waited", *step, "waited"), 3, "trn2")
    assert found["device_time_s"] == pytest.approx(4e-6)
    assert found["calls"] == 4
    told = {"kind": "allreduce", "ranks": (0, 1), "floor": "HOST", "nbytes": [64] * 4}
    assert found["collectives"] == [told]
    assert found["exchanges"] == {n: ["allreduce", (0, 1), "HOST", n] for n in (1, 2)}
    # what follows the first optimizer belongs to the second step, and what follows it to none
    assert [(what, number) for _, what, number in found["step"]] == [
        ("begin", 1), ("wait", 1), ("begin", 2), ("wait", 2), ("end", -1),
    ]  # fmt: skip
    assert [time_s for time_s, _, _ in found["step"]] == pytest.approx([0, 0, 2e-6, 1e-6, 1e-6])


def test_a_call_that_touches_the_tensors_waits():
    found = figures(recorded(FORWARD, "async", FORWARD, "touch", FORWARD), 0, "trn2")
    assert [what for _, what, _ in found["step"]] == ["begin", "wait", "end"]
    assert [time_s for time_s, _, _ in found["step"]] == pytest.approx([1e-6, 1e-6, 1e-6])


def test_collectives_alone_are_told_too():
    found = figures(recorded("waited", "waited"), 0, "trn2")
    assert found["collectives"][0]["nbytes"] == [64, 64]
    assert len(found["exchanges"]) == 2


def test_a_long_program_keeps_its_last_steps_and_tells_the_same(monkeypatch):
    def told(is_long):
        found, steps = Recording(), StepCounter()
        monkeypatch.setattr(rank_figures, "steps", steps)
        if is_long:
            steps.listeners.append(LastSteps(found))
        for number in range(50):
            for one in (FORWARD, "async", BACKWARD, "touch", OPTIMIZER, OPTIMIZER):
                if one == OPTIMIZER and found.events[-1].phase is not OPTIMIZER:
                    steps.note_optimizer_step()
                note_into(found, one)
            assert len(found.events) <= (3 * 4 if is_long else 4 * (number + 1))
        note_into(found, FORWARD)  # a step that is not complete
        return figures(found, 0, "trn2")

    assert told(is_long=True) == told(is_long=False)


PROGRAM = """
import os, trnsim.device.call_log as log, trnsim.device.rank_figures as figures
assert log.record_whole_program()
figures.write_at_end()
if os.fork() == 0:
    raise SystemExit  # runs what is to run at the end, and is no rank
os.wait()
"""


@pytest.mark.slow
def test_a_rank_writes_them_at_its_end(tmp_path):
    given = os.environ | {"TRNSIM_RANK_FIGURES": str(tmp_path / "ranks"), "RANK": "2"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=given, check=True)
    (path,) = (tmp_path / "ranks").iterdir()
    assert path.name == "rank-2.json"
    assert json.loads(path.read_text())["rank"] == 2
    (tmp_path / "file").write_text("")
    given["TRNSIM_RANK_FIGURES"] = str(tmp_path / "file" / "below")
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=given, check=True, capture_output=True, text=True
    )
    assert "trnsim: the figures of rank 2 are missing: cannot write" in said.stderr

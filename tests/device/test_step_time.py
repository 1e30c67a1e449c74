from dataclasses import dataclass

import pytest

from trnsim.device.call_log import note, recording
from trnsim.device.call_time import CallTime
from trnsim.device.step_time import MAX_TABLE_ROWS, step_time
from trnsim.lower import Cost


@pytest.fixture(scope="module")
def found(made_up, at):
    with recording() as found:
        note(made_up("x::add", (1e-3,)), 0, at("up"))
        note(made_up("x::dot", (2e-3, 4e-3)), 0, at("down"))
        note(made_up("x::add", (1e-3,)), 0, at(phase="backward"))
        note(made_up("graph-0", (3e-3, 3e-3), "x::odd has no kernel", is_one_launch=True), 0, at())
        note(made_up("x::none", ()), 0, at("down"))
    return found


def test_calls_run_one_after_the_other_and_launches_are_apart(found):
    time = step_time(found, "trn2")
    assert time.device_time_s == pytest.approx(14e-3)
    assert time.launch_s == pytest.approx((1 + 2 + 1 + 1) * 1e-5)
    assert time.flop == pytest.approx(6e6)
    assert step_time(found, "trn1").device_time_s == pytest.approx(28e-3)
    assert len(time.times) == 4  # of equal calls one


def test_part_of_a_recording_has_a_time_too(found):
    assert step_time(found.events[:1], "trn2").device_time_s == pytest.approx(1e-3)
    assert step_time([], "trn2").device_time_s == 0


def test_what_has_no_time_is_counted_by_reason(found):
    missing = step_time(found, "trn2").missing
    assert missing == {"x::odd has no kernel": 1, "x::none has no time": 1}


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("operation", {"x::dot": (1, 6e-3), "graph-0": (1, 6e-3), "x::add": (2, 2e-3),
                       "x::none": (1, 0.0)}),
        ("module", {"down": (2, 6e-3), "(no module)": (2, 7e-3), "up": (1, 1e-3)}),
        ("phase", {"forward": (4, 13e-3), "backward": (1, 1e-3)}),
    ],
)  # fmt: skip
def test_rows_add_up_the_longest_first(found, key, rows):
    got = step_time(found, "trn2").by(key)
    assert {name: (number, pytest.approx(s)) for name, number, s in got} == rows
    assert [s for _, _, s in got] == sorted((s for _, _, s in got), reverse=True)


@dataclass(frozen=True)
class Looped:
    """A program of a loop: trips of two modules each, and the lines that ask for them."""

    trips: int
    name: str = "jit_step-0"
    operation: str = "jit_step-0"

    def time(self, target):
        del target
        names = [f"{trip}.{one}" for trip in range(self.trips) for one in ("attention", "mlp")]
        modules = (("loss", 1e-3), *((name, 1e-4) for name in names))
        lines = (("train.py:7", 1e-3), ("", 2e-4 * self.trips))
        kernels = (Cost("all", 1e-3 + 2e-4 * self.trips, 0.0, 1, 0.0, 0),)
        return CallTime(kernels, is_one_launch=True, modules=modules, lines=lines)


def looped(at, trips):
    with recording() as found:
        note(Looped(trips), 0, at())
    return step_time(found, "trn2")


def test_many_trips_of_a_loop_are_one_name(at):
    rows = looped(at, 2000).by("module")
    assert [(name, number) for name, number, _ in rows] == [
        ("*.attention", 2000),
        ("*.mlp", 2000),
        ("loss", 1),
    ]
    assert rows[0][2] == pytest.approx(0.2)
    assert len(looped(at, MAX_TABLE_ROWS).by("module")) == 2 * MAX_TABLE_ROWS + 1
    assert len(looped(at, MAX_TABLE_ROWS + 1).by("module")) == 3


def test_programs_that_know_their_lines_are_told_by_line(at, found):
    rows = looped(at, 2).by("line")
    assert rows == [("train.py:7", 1, 1e-3), ("(no line)", 1, pytest.approx(4e-4))]
    assert looped(at, 2).keys == ("phase", "module", "operation", "line")
    assert step_time(found, "trn2").keys == ("phase", "module", "operation")

"""The page of a microsecond: its stages are of rooms that exist, and its columns add up."""

import re
import signal
import time
from types import SimpleNamespace

import microsecond
import pytest

import trnsim.isa.vector.copy
from trnsim.program import context


def frame(file, outer=None):
    return SimpleNamespace(f_code=SimpleNamespace(co_filename=file), f_back=outer)


def test_a_stop_counts_for_the_innermost_room_or_the_kernel():
    isa, program = (frame(module.__file__) for module in (trnsim.isa.vector.copy, context))
    numpy = frame("/site-packages/numpy/core.py", isa)
    kernel = frame(str(microsecond.ROOT / "examples" / "attention.py"), program)
    assert microsecond.stage_of(numpy) == "isa"
    assert microsecond.stage_of(program) == "program"
    assert microsecond.stage_of(kernel) == microsecond.KERNEL
    assert microsecond.stage_of(frame(trnsim.__file__)) == microsecond.OTHERS
    assert microsecond.stage_of(frame("/a/user.py")) == microsecond.OTHERS
    assert microsecond.stage_of(None) == microsecond.OTHERS


def test_stages_are_of_rooms_that_exist():
    rooms = [room for rooms, _ in microsecond.STAGES.values() for room in rooms]
    assert len(set(rooms)) == len(rooms)
    package = microsecond.ROOT / "src" / "trnsim"
    assert all((package / room).is_dir() for room in rooms)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")
def test_a_call_is_repeated_and_its_time_is_counted_and_the_timer_ends():
    calls = []

    def call():
        calls.append(1)
        started = time.process_time()
        while time.process_time() - started < 0.01:
            pass

    profile = microsecond.measured(call, 5, 0.025)
    assert profile.instructions == 5 * len(calls)
    assert profile.cpu_s >= max(0.025, 0.01 * len(calls))
    assert profile.us(microsecond.OTHERS) == pytest.approx(profile.total_us)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_columns_of_the_page_add_up():
    text = microsecond.PAGE.read_text(encoding="utf-8")
    tables = text.split("\n## ")[1:]
    assert len(tables) == 3
    for part in tables:
        rows = [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("|")]
        head, _, *stages, total = [[cell.strip(" *") for cell in row] for row in rows]
        assert head[1:-1] == ["first", "again", "record", "no values"]
        assert {row[0] for row in stages} <= microsecond.STAGES.keys()
        for column in range(1, 5):
            figures = [float(row[column]) for row in stages]
            assert sum(figures) == pytest.approx(
                float(total[column]), abs=0.05 * len(figures) + 0.1
            )
    assert re.search(r"Python 3\.\d+", text)

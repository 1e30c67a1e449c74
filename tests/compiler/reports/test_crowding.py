"""The sentence about results that have no room in SBUF."""

import pytest

from trnsim.compiler.program_times import ProgramFigures
from trnsim.compiler.reports.crowding import crowding_note
from trnsim.compiler.schedules import SbufSchedule
from trnsim.profile.measures.parts import PartCost

KIB, MIB = 1 << 10, 1 << 20


def program(spilled_bytes, time_s=1e-3, wanted_bytes=304 * KIB):
    part = PartCost(1, hbm_bytes={"spills": spilled_bytes, "weights": 1e9})
    return ProgramFigures(
        time_s, work={("add", 0): part}, schedule=SbufSchedule(40 * KIB), wanted_bytes=wanted_bytes
    )


def test_it_says_what_does_not_fit_from_which_size_on_and_what_helps():
    assert crowding_note([program(64 * MIB), program(0.0, wanted_bytes=0)], "trn1") == (
        "room in SBUF: results want 304 KiB of a partition at once and have 152 KiB, so 64 MiB a "
        "core cross HBM (247 us); about 50 % of the tokens or images would fit: give a step fewer, "
        "or more ranks"
    )


@pytest.mark.parametrize("programs", [[], [program(0.0)], [program(64 * MIB, 1.0)]])
def test_it_says_nothing_where_little_crosses_hbm(programs):
    assert crowding_note(programs, "trn2") == ""


def test_room_that_is_enough_at_once_is_no_share_above_all():
    assert "about 100 % of" in crowding_note([program(64 * MIB, wanted_bytes=1)], "trn2")

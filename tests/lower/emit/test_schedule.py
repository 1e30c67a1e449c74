"""How SBUF is shared."""

from trnsim.lower.emit.schedule import FIRST_SCHEDULE, SbufSchedule


def test_a_schedule_is_told_in_kibibytes():
    assert str(FIRST_SCHEDULE) == "72 KiB passing, 32 KiB ahead"
    assert str(SbufSchedule(40 * 1024)) == "40 KiB passing, 32 KiB ahead"

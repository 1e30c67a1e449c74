from types import SimpleNamespace

from trnsim.device.collective_log import CollectiveCall, collectives_text


def test_collectives_are_listed_with_their_time_or_without():
    log = [CollectiveCall("allreduce", 1 << 20, (0, 1))] * 2
    log.append(CollectiveCall("alltoall_base", 64, (0, 1)))

    def two_ms(kind, nbytes, ranks, target):
        assert (nbytes, ranks, target) in ((1 << 20, 2, "trn2"), (64, 2, "trn2"))
        return SimpleNamespace(time_s=2e-3, origin="made up") if kind == "allreduce" else None

    lines = collectives_text(log, "trn2", two_ms).splitlines()
    assert lines[0] == "collectives of the whole program on trn2"
    assert lines[2].split() == ["allreduce", "2", "1", "MiB", "2", "0-1", "4.000"]
    assert lines[3].split() == ["alltoall_base", "1", "64", "B", "2", "0-1", "not", "timed"]
    assert lines[4:] == ["  from made up"]


def test_a_program_without_collectives_says_nothing():
    assert collectives_text([], "trn2", lambda *_: None) == ""


def test_groups_of_as_many_members_are_rows_of_their_own():
    groups = ((0, 2, 4, 6), (4, 5, 6, 7), (3,), tuple(range(0, 36, 3)))
    log = [CollectiveCall("allgather", 8, group) for group in groups]
    lines = collectives_text(log, "trn2", lambda *_: None).splitlines()
    shown = [line.split()[5] for line in lines[2:]]
    assert shown == ["0,2,4,6", "4-7", "3", "0,3,6,9,12,15,18,21,..."]

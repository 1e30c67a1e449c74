import pytest

from trnsim.device.collective_log import CollectiveCall, collectives_blocks, kind_of
from trnsim.document.text import section_text
from trnsim.fabric.collective_time import collective_time
from trnsim.fabric.floors import Floor


def test_collectives_are_listed_with_their_time_or_without():
    log = [CollectiveCall("allreduce", 1 << 20, (0, 1))] * 2
    log.append(CollectiveCall("check_for_nan", 64, (0, 1)))
    found = collective_time("all_reduce", 1 << 20, 2, "trn2", floor=Floor.HOST)
    lines = section_text("", collectives_blocks(log, "trn2")).splitlines()
    assert lines[0] == "collectives of the whole program on trn2, started by the host"
    took = f"{2e3 * found.time_s:.3f}"
    assert lines[2].split() == [
        "allreduce",
        "2",
        "1",
        "MiB",
        "2",
        "0-1",
        *found.algorithm.split(),
        took,
    ]
    assert lines[3].split() == ["check_for_nan", "1", "64", "B", "2", "0-1", "not", "timed"]
    assert " ".join(" ".join(lines[4:]).split()) == f"from {found.origin}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce_coalesced", "all_reduce"),
        ("allgather_base", "all_gather"),
        ("reduce_scatter", "reduce_scatter"),
        ("alltoall_base", "all_to_all"),
        ("recv_any_source", "send"),
        ("collective_permute", "send"),
        ("barrier", "barrier"),
        ("check_for_nan", None),
    ],
)
def test_frameworks_have_names_of_their_own(name, kind):
    assert kind_of(name) == kind


def test_a_collective_inside_a_program_says_so():
    log = [CollectiveCall("all_reduce", 1 << 20, (0, 1), Floor.PROGRAM)]
    lines = section_text("", collectives_blocks(log, "trn2")).splitlines()
    assert lines[0] == "collectives of the whole program on trn2, inside a program"
    found = collective_time("all_reduce", 1 << 20, 2, "trn2")
    assert lines[2].split()[-1] == f"{1e3 * found.time_s:.3f}"
    assert ", inside a program; " in found.origin


def test_a_program_without_collectives_says_nothing():
    assert collectives_blocks([], "trn2") == ()


def test_groups_of_as_many_members_are_rows_of_their_own():
    groups = ((0, 2, 4, 6), (4, 5, 6, 7), (3,), tuple(range(0, 36, 3)))
    log = [CollectiveCall("allgather", 8, group) for group in groups]
    lines = section_text("", collectives_blocks(log, "trn2")).splitlines()
    shown = [line.split()[5] for line in lines[2:6]]
    assert shown == ["0,2,4,6", "4-7", "3", "0,3,6,9,12,15,18,21,..."]

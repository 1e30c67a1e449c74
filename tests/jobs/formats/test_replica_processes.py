import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.replica_processes import read_processes, stated_processes
from trnsim.jobs.job import Role
from trnsim.jobs.spec import SpecReader
from trnsim.reader import load_documents

RANKS = ("torchrun", "--nproc-per-node", "4", "a.py")


def reader(folder, value):
    path = folder / "a.yaml"
    path.write_text(f"spec:\n  count: {value}\n")
    return SpecReader(load_documents(path)[0].root)


@pytest.mark.parametrize(
    ("value", "processes", "is_kept"),
    [
        *[("1", 1, False), ('"128"', 128, False), ("auto", None, True), ("gpu", None, True)],
        *[("$N", None, True), ("null", None, True)],
    ],
)
def test_a_word_or_a_template_is_kept_and_a_number_taken(tmp_path, value, processes, is_kept):
    source = reader(tmp_path, value)
    assert read_processes(source, "spec", "count", field="roles.0.processes") == processes
    assert bool(source.kept_fields()) is is_kept


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "[1]"])
def test_anything_else_is_refused_at_its_line(tmp_path, value):
    with pytest.raises(BadInput, match=r"a\.yaml:2: spec.count is "):
        read_processes(reader(tmp_path, value), "spec", "count", field="x")


@pytest.mark.parametrize(
    ("roles", "number"),
    [
        ((), None),
        ((Role(),), None),
        ((Role(processes=4, command=RANKS),), None),
        ((Role(processes=8, command=RANKS),), 8),
        ((Role(processes=8), Role(processes=8, command=RANKS)), 8),
    ],
)
def test_what_commands_start_is_not_stated_again(roles, number):
    assert stated_processes(roles, "a Job") == number


def test_roles_that_differ_are_refused():
    with pytest.raises(BadInput, match="roles start 8 and None processes; a Job has one number"):
        stated_processes((Role(), Role(processes=8)), "a Job")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.instance import cores

VARIABLES = (cores.VISIBLE, cores.COUNT, cores.PROCESS_CORES, cores.PROCESS_INDEX)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in (*VARIABLES, cores.LOCAL_PROCESSES, "TRNSIM_INSTANCE"):
        monkeypatch.delenv(name, raising=False)


def visible(chip="trn2", lnc=2):
    return cores.visible_cores(arch.target(chip), lnc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("3,4,5", (3, 4, 5)), ("3-5, 6", (3, 4, 5, 6))],
)
def test_cores_are_read(text, expected):
    assert cores.parse_cores(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not name cores\n"),
        ("x", "does not name cores\n"),
        ("-1", "does not name cores\n"),
        ("1-", "does not name cores\n"),
        ("3-1", "does not name cores\n"),
        ("0,,1", "does not name cores\n"),
        ("1 - 2", "does not name cores\n"),
        ("0x1", "does not name cores\n"),
        ("0_1", "does not name cores\n"),
        ("+1", "does not name cores\n"),
        ("٣", "does not name cores\n"),
        ("0,0", "its parts overlap"),
        ("0-3,2-5", "its parts overlap"),
        ("3,5,6", "cores must follow each other without a gap"),
        ("1,0", "cores must follow each other without a gap"),
        ("0-99999999999", "no instance has"),
    ],
)
def test_what_names_no_cores_is_refused(text, why):
    with pytest.raises(BadInput, match=why):
        cores.parse_cores(text)


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_range_is_all_its_cores(first, number):
    found = tuple(range(first, first + number))
    assert cores.parse_cores(f"{first}-{found[-1]}") == found


@pytest.mark.parametrize(("text", "number"), [("3", 3), ("", 7), ("-1", 7), ("1.5", 7), ("x", 7)])
def test_a_number_of_the_environment_is_digits_alone(monkeypatch, text, number):
    monkeypatch.setenv("LOCAL_RANK", text)
    assert cores.environment_number("LOCAL_RANK", 7) == number


def test_names_come_before_numbers_and_those_before_shares(monkeypatch):
    assert visible() == (0, 1, 2, 3)
    monkeypatch.setenv(cores.PROCESS_CORES, "3, 2")
    assert visible() == (0, 1, 2)
    monkeypatch.setenv(cores.PROCESS_INDEX, "1")
    assert visible() == (3, 4)
    monkeypatch.setenv(cores.COUNT, "4")
    assert visible() == (0, 1, 2, 3)
    monkeypatch.setenv(cores.VISIBLE, "8-9")
    assert visible() == (8, 9)


def test_a_rank_that_torchrun_started_has_one_core(monkeypatch):
    monkeypatch.setenv(cores.LOCAL_RANK, "3")
    assert visible() == (0,)
    monkeypatch.setenv(cores.COUNT, "2")
    assert visible() == (0, 1)


def test_a_rank_counts_as_many_processes_as_the_one_that_started_it(monkeypatch):
    chip = arch.target("trn2")
    assert cores.local_processes(chip, 2) == 4
    monkeypatch.setenv(cores.LOCAL_RANK, "1")
    assert cores.local_processes(chip, 2) == 4
    monkeypatch.setenv(cores.COUNT, "2")
    assert cores.local_processes(chip, 2) == 2
    monkeypatch.setenv(cores.LOCAL_PROCESSES, "8")
    assert cores.local_processes(chip, 2) == 8
    monkeypatch.setenv(cores.LOCAL_PROCESSES, "many")
    assert cores.local_processes(chip, 2) == 2


def test_no_number_of_cores_is_all_of_the_instance(monkeypatch):
    """aws-neuron-sdk configuration-guide.rst: 0, which is interpreted as "all"."""
    monkeypatch.setenv(cores.COUNT, "0")
    assert visible() == (0, 1, 2, 3)  # of trn2.3xlarge, the smallest
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    assert visible() == tuple(range(64))


@pytest.mark.parametrize("value", ["none", "-1", "1.5", "", "٣", "²"])
def test_what_is_no_number_of_cores_is_refused(monkeypatch, value):
    monkeypatch.setenv(cores.COUNT, value)
    with pytest.raises(BadInput, match=f"NEURON_RT_NUM_CORES='{value}' is not a number of cores"):
        visible()


@pytest.mark.parametrize(
    ("instance", "setting", "value", "message"),
    [
        ("trn2.3xlarge", cores.VISIBLE, "4", "asks for 5 cores; trn2.3xlarge has 4, 0 to 3"),
        ("trn2.3xlarge", cores.COUNT, "5", "asks for 5 cores; trn2.3xlarge has 4, 0 to 3"),
        ("trn2.48xlarge", cores.VISIBLE, "60-64", "asks for 65 cores; trn2.48xlarge has 64"),
        ("", cores.VISIBLE, "64", "asks for 65 cores; trn2.48xlarge has 64"),
        ("", cores.PROCESS_CORES, "60,5", "asks for 65 cores; trn2.48xlarge has 64"),
    ],
)
def test_cores_that_the_instance_lacks_are_refused(monkeypatch, instance, setting, value, message):
    monkeypatch.setenv("TRNSIM_INSTANCE", instance)
    monkeypatch.setenv(setting, value)
    with pytest.raises(BadInput, match=message):
        visible()


def test_an_instance_of_another_chip_is_refused(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.32xlarge")
    with pytest.raises(BadInput, match=r"trn1.32xlarge has trainium1; this runs on trainium2"):
        visible()


def test_the_instance_of_a_process_is_the_smallest_with_its_cores():
    chip = arch.target("trn2")
    assert cores.process_instance(chip, 2, 4).name == "trn2.3xlarge"
    assert cores.process_instance(chip, 2, 8).name == "trn2.48xlarge"
    assert cores.process_instance(chip, 1, 8).name == "trn2.3xlarge"


@pytest.mark.parametrize(
    ("counts", "index", "message"),
    [
        ("2,0", "0", "NUM_DEVICES='2,0' is no number of cores for each process"),
        ("2,", "0", "NUM_DEVICES='2,' is no number of cores for each process"),
        ("2,2", "2", "INDEX=2, of 2 in NEURON_PJRT_PROCESSES_NUM_DEVICES=2,2"),
        ("2,2", "first", "INDEX='first' is no number"),
    ],
)
def test_shares_that_are_none_are_refused(monkeypatch, counts, index, message):
    monkeypatch.setenv(cores.PROCESS_CORES, counts)
    monkeypatch.setenv(cores.PROCESS_INDEX, index)
    with pytest.raises(BadInput, match=message):
        cores.process_cores()

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import record
from reported import TRN2, World, full

from trnsim.instance.model import instance_model
from trnsim.tools.top import drawing
from trnsim.tools.top.tree import TreeState, tree
from trnsim.tools.top.view import ALL, Tab, figures, instance, tabs

REPORT = World(full()).report()
FOUND, SHOWN = instance(REPORT), figures(REPORT, ALL)


def plain(lines):
    return [line.plain.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0.0B"), (1023, "1023.0B"), (1024, "1.0KiB"), (1.5 * 2**30, "1.5GiB"),
     (96 * 2**30, "96.0GiB"), (2**40 - 1, "1.0TiB"), (2**40, "1.0TiB"),
     (2**50, "1024.0TiB")],
)  # fmt: skip
def test_bytes_stand_in_their_largest_unit(count, said):
    assert drawing.bytes_text(count) == said


def test_a_device_has_a_line_where_there_is_room():
    lines = plain(drawing.cores(SHOWN, FOUND, 160, 16, in_flops=False))
    assert len(lines) == 2 + 16
    # The cores are busy from 50 % in steps of 1/128.
    assert lines[0] == "NeuronCore v3d Utilization (Avg: 74.61%)"
    assert [line.split()[0] for line in lines[2:]] == [f"ND{index}" for index in range(16)]
    assert lines[2].count("[") == 4
    assert lines[2].endswith("52.34%]")


def test_devices_stand_side_by_side_where_lines_are_few():
    lines = plain(drawing.cores(SHOWN, FOUND, 80, 11, in_flops=False))
    assert len(lines) == 2 + 8
    assert lines[2].count("[") == 8
    assert lines[-1].split()[0] == "ND14"
    assert lines[-1].endswith("99%]")


def test_128_cores_fit_80_columns_as_numbers():
    model = instance_model("trn2.48xlarge", 1)
    report = World(full(model), model=model).report()
    lines = plain(drawing.cores(figures(report, ALL), instance(report), 80, 8, in_flops=False))
    assert len(lines) == 2 + 8
    assert lines[2].split()[:9] == ["ND0", "50", "50", "51", "51", "52", "52", "52", "53"]


@pytest.mark.parametrize(
    ("width", "said"), [(160, "40.00T]"), (60, " 40T]"), (30, " 40 ")]
)  # fmt: skip
def test_operations_a_second_stand_in_their_place(width, said):
    lines = drawing.cores(SHOWN, FOUND, width, 16, in_flops=True)
    # The cores do 40 to 103 TFLOPS: 64 x 71.5.
    assert "NeuronCore v3d (Sum: 4576.00 TFLOPS)".startswith(lines[0].plain.rstrip())
    assert said in lines[2].plain


def test_a_bar_is_as_long_as_its_part():
    for percent, length in ((0, 0), (50, 10), (100, 20)):
        line = drawing._bar([(percent, "green")], "12345", 25)
        assert line.plain == "[" + "|" * length + " " * (20 - length) + "12345]"
    line = drawing._bar([(25, "green"), (25, "red"), (75, "blue")], "", 20)
    assert line.plain == "[" + "|" * 20 + "]"
    assert [(one.start, one.end) for one in line.spans] == [(1, 6), (6, 11), (11, 21)]


def test_vcpus_have_the_users_and_the_systems_part():
    report = World(record()).report()
    report["system_data"]["vcpu_usage"]["average_usage"] |= {"user": 25.0, "system": 50.0}
    report["neuron_runtime_data"][0]["report"]["neuron_runtime_vcpu_usage"] = {"error": "ended"}
    system, runtime = plain(drawing.vcpus(figures(report, ALL), 80))
    assert system.startswith("System vCPU Usage  [|||")
    assert system.endswith(" 25.00%, 50.00%]")
    assert runtime == "Runtime vCPU Usage ended"


def test_the_summary_has_all_categories_in_as_many_lines_as_it_needs():
    text = " ".join(" ".join(plain(drawing.memory(SHOWN, 80))).split())
    assert text == (
        "Host Used Memory Total: 10.0B Tensors: 8.0B Constants: 0.0B DMA Buffers: 0.0B "
        "App. Memory: 2.0B Device Used Memory Total: 7.2GiB Tensors: 6.2GiB "
        "Constants: 608.0MiB Model Code: 192.0MiB Runtime Memory: 128.0MiB "
        "Model Scratchpad: 64.0MiB"
    )
    assert len(drawing.memory(SHOWN, 200)) == len(drawing.memory(SHOWN, 60, is_whole=False)) == 2


def test_the_tree_is_seen_around_its_cursor():
    nodes, state = tree(SHOWN, 4), TreeState()
    state.toggle_all(nodes)
    state.move(nodes, 1000)
    rows = state.rows(nodes)
    lines = drawing.details(rows, state.cursor_line(nodes), 80, 5)
    assert plain(lines)[-1].split() == ["Model", "Scratchpad", "1.0MiB", "0.0B"]
    assert [line.style for line in lines] == ["", "", "", "", "reverse"]
    state.move(nodes, -1000)
    assert plain(drawing.details(rows, state.cursor_line(nodes), 80, 5))[0].startswith("[-] Host")


def test_the_chosen_tab_is_seen_however_many_there_are():
    several = tabs(World(*(record(pid=pid, tag=f"job-{pid}") for pid in range(1, 65))).report())
    for chosen in several:
        line = drawing.tab_bar(several, chosen, 80).plain
        assert f":{chosen.name}<" in line
        assert len(line) == 80
    assert drawing.tab_bar(several[:2], ALL, 40).plain.split() == [
        "Neuron", "Apps", ">[1]:all<", "[2]:job-1",
    ]  # fmt: skip


def test_a_line_at_the_top_says_that_it_is_emulated():
    for width in (80, 60, 40):
        assert "emulated" in drawing.title("0.1.0", FOUND, width).plain
    assert "q: quit" in drawing.keys(20).plain
    assert drawing.keys(80).plain.rstrip().endswith("x: open all")


@given(st.integers(1, 250), st.integers(1, 60), st.sampled_from(["trn2.48xlarge", "inf2.xlarge"]))
def test_no_line_is_longer_than_the_terminal(width, rows, name):
    model = instance_model(name)
    report = WORLDS[name]
    shown, found = figures(report, ALL), instance(report)
    nodes = tree(shown, found.cores_per_device)
    lines = [
        drawing.title("0.1.0", found, width),
        drawing.band("vCPU Utilization", width),
        drawing.details_head(width),
        *drawing.details(TreeState().rows(nodes), 0, width, rows),
        drawing.tab_bar([ALL, Tab("x" * 30, 1)], ALL, width),
        drawing.keys(width),
    ]
    assert all(len(line.plain) <= width for line in lines)
    cells = drawing.cores(shown, found, width, rows, in_flops=False)
    if width >= drawing._LABEL_CHARS + drawing._LEAST_CELL * model.devices[0].cores:
        assert all(len(line.plain) <= width for line in cells)


WORLDS = {
    name: World(full(instance_model(name)), model=instance_model(name)).report()
    for name in (TRN2.name, "inf2.xlarge")
}

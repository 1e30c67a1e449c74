"""AWS's page shows neuron-ls on a trn2n.48xlarge; where a clone is named, all of it is compared."""

import json
import os
import re
import textwrap
from pathlib import Path

import pytest

from trnsim.instance import INSTANCE_ID
from trnsim.instance.model import instance_model
from trnsim.instance.state.observers import Observer
from trnsim.instance.state.record import ProcessRecord
from trnsim.tools import neuron_ls as tool

PAGE = Path("aws-neuron-sdk/tools/neuron-sys-tools/neuron-ls.rst")
TIPS = Path("aws-neuron-sdk/neuron-runtime/explore/runtime-performance-tips.rst")
MODEL = instance_model("trn2n.48xlarge")
COMMAND = (
    "neuron-bench exec --run-as-cc-neff --warmup none --fixed-instance-count 64 --fixed-cpu-count 9"
)


def record(pid, cores, command=COMMAND):
    return ProcessRecord(pid, "1", command, "torch", str(pid), MODEL.name, 2, tuple(cores), 0.0)


def on_all_devices(pid=268911):
    return tool.processes([record(pid, range(64))], MODEL, "2.0.0")


@pytest.fixture(scope="module")
def examples():
    """The blocks of the page by their command, without their indentation."""
    folder = os.environ.get("TRNSIM_UPSTREAM")
    if not folder:
        pytest.skip("$TRNSIM_UPSTREAM does not name a folder with a clone of aws-neuron-sdk")
    blocks = (Path(folder) / PAGE).read_text(encoding="utf-8").split("::\n\n")[1:]
    found = {}
    for block in blocks:
        text = textwrap.dedent(block.split("\n\nField Definitions")[0]).rstrip("\n")
        command, _, shown = text.partition("\n")
        found[command.removeprefix("$ ")] = shown
    return found


def shown(table):
    """What is printed, with the page's number of the instance."""
    head = tool.head(MODEL)
    return f"{head.replace(INSTANCE_ID, 'i-aabbccdd123456789')}\n{table}"


def test_the_overview_is_the_pages(examples):
    assert shown(tool.overview(MODEL)) == examples["neuron-ls"]


def test_the_wide_table_is_the_pages(examples):
    assert shown(tool.wide(MODEL, on_all_devices())) == examples["neuron-ls --wide"]


def test_the_table_of_all_processes_is_the_pages(examples):
    looking = tool.Process(269192, "neuron-ls --show-all-procs", "NA", frozenset(range(16)))
    table = tool.all_processes(MODEL, [*on_all_devices(), looking])
    assert shown(table) == examples["neuron-ls --show-all-procs"]


def test_the_topology_is_the_pages(examples):
    given = examples["neuron-ls --topology"].splitlines()
    assert shown(tool.topology(MODEL)).splitlines() == [line or "" for line in given]


def test_the_json_is_the_pages(examples):
    text = examples["neuron-ls -j"]
    first, last = (json.loads(part) for part in _objects(text))
    found = json.loads(tool.as_json(MODEL, on_all_devices(113985)))
    assert (found[0], found[-1]) == (first, last)
    assert list(found[0]) == list(first)


def _objects(text):
    """The two devices between which the page has dots."""
    before, _, after = text.partition("...\n")
    return before.strip().removeprefix("[").rstrip(", \n"), after.strip().removesuffix("]")


def test_a_command_is_cut_to_the_width_of_its_table():
    assert tool.cut("a" * 40, 40) == "a" * 40
    assert tool.cut("a" * 41, 40) == "a" * 37 + "..."
    assert tool.cut("python  train.py\n--x", 40) == "python train.py --x"


def test_a_process_stands_at_the_devices_of_its_cores():
    (found,) = tool.processes([record(7, [3, 4, 63])], MODEL, "1")
    assert found.devices == {0, 1, 15}
    rows = json.loads(tool.as_json(MODEL, [found]))
    assert [bool(row["neuron_processes"]) for row in rows] == [
        index in (0, 1, 15) for index in range(16)
    ]


def test_cores_of_another_lnc_are_those_of_their_physical_ones():
    """Core 10 is on device 1 at LNC=1, where a device has 8, and on device 2 at LNC=2."""
    one = ProcessRecord(7, "1", COMMAND, "torch", "7", MODEL.name, 1, (10, 127), 0.0)
    (found,) = tool.processes([one], MODEL, "1")
    assert found.devices == {1, 15}


def test_cores_that_the_instance_lacks_are_left_out():
    (found,) = tool.processes([record(7, [63, 64, 1000])], MODEL, "1")
    assert found.devices == {15}


def test_two_processes_of_a_device_have_a_row_each():
    two = tool.processes([record(7, [0]), record(8, [1])], MODEL, "1")
    lines = tool.wide(MODEL, two).splitlines()
    assert lines[4].startswith("| 0      | 4      | 96 GB  | 12, 3, 4, 1   | cc:00.0 | 7 ")
    assert lines[5].startswith("|        |        |        |               |         | 8 ")
    assert lines[6].startswith("| 1 ")


@pytest.mark.parametrize(
    ("name", "lnc", "devices", "cores"),
    [
        ("trn2.48xlarge", 1, 16, 8),
        ("trn2.3xlarge", 2, 1, 4),
        ("trn1.32xlarge", 1, 16, 2),
        ("inf2.48xlarge", 1, 12, 2),
        ("inf1.24xlarge", 1, 16, 4),
        ("Trn3 Gen2 UltraServer", 2, 144, 4),
    ],
)
def test_every_generation_has_the_same_layout(name, lnc, devices, cores):
    model = instance_model(name, lnc)
    has_pairs = model.generation > 2
    assert model.has_pairs is has_pairs
    rows = json.loads(tool.as_json(model, []))
    assert len(rows) == devices
    assert {row["nc_count"] for row in rows} == {cores}
    assert [core for row in rows for core in row["neuroncore_ids"]] == list(range(devices * cores))
    assert all(("logical_neuroncore_config" in row) is has_pairs for row in rows)
    assert ("logical-neuroncore-config" in tool.head(model)) is has_pairs
    tables = (tool.overview(model), tool.wide(model, []), tool.all_processes(model, []))
    assert all(len({len(line) for line in table.splitlines()}) == 1 for table in tables)


def test_every_table_of_the_performance_tips_is_the_overview():
    """neuron-runtime/explore/runtime-performance-tips.rst lists three instances, all columns."""
    folder = os.environ.get("TRNSIM_UPSTREAM")
    if not folder:
        pytest.skip("$TRNSIM_UPSTREAM does not name a folder with a clone of aws-neuron-sdk")
    text = (Path(folder) / TIPS).read_text(encoding="utf-8")
    parts = re.split(r'\n(trn1.32xlarge|inf2.48xlarge|trn2.48xlarge)\n"+\n', text)
    assert len(parts) == 1 + 3 * 2
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        listed = re.findall(r"^ +(?:\* )?- (.*)$", body, re.MULTILINE)
        rows = [listed[at : at + 8] for at in range(0, len(listed), 8)]
        printed = cells(tool.overview(instance_model(name)))
        assert [" ".join(pair) for pair in zip(*printed[:2], strict=True)] == rows[0]
        assert printed[2:] == rows[1:]


def cells(table):
    """What stands between the bars of a table's lines."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_inf1_is_the_page_of_its_time():
    """aws-neuron-sdk@93e9f5d8 tools/neuron-sys-tools/neuron-ls.rst, its table of links."""
    assert cells(tool.topology(instance_model("inf1.6xlarge")))[2:] == [
        ["0", "4", "8 GB", "1", "00:1c.0"],
        ["1", "4", "8 GB", "2, 0", "00:1d.0"],
        ["2", "4", "8 GB", "3, 1", "00:1e.0"],
        ["3", "4", "8 GB", "2", "00:1f.0"],
    ]


def test_a_device_without_a_process_says_so():
    """The same page: device 3."""
    busy = tool.Process(7, "python a.py", "1", frozenset({0}))
    rows = cells(tool.wide(instance_model("inf1.6xlarge"), [busy]))[2:]
    assert rows[0][5:] == ["7", "python a.py", "1"]
    assert rows[3][5:] == ["NA", "NA", "NA"]


def test_one_device_is_joined_to_none():
    (row,) = json.loads(tool.as_json(instance_model("trn1.2xlarge"), []))
    assert row["connected_to"] is None


def test_tools_look_at_all_devices_without_a_runtime():
    (found,) = tool.tools([Observer(9, "neuron-monitor")], MODEL)
    assert (found.pid, found.command, found.version) == (9, "neuron-monitor", "NA")
    assert found.devices == frozenset(range(16))

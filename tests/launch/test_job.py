import re
import sys
from pathlib import Path

import pytest

from trnsim.device.device_core import logical_config
from trnsim.errors import BadInput
from trnsim.launch.job import job

COMMAND = ("python", "train.py")
FOLDER = Path("report")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    logical_config.cache_clear()


def test_nodes_and_ranks_have_torchruns_variables_without_torch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = job(COMMAND, "trn2.48xlarge", FOLDER, nodes=2, ranks_per_node=3)
    agents = found.agents()
    assert [name for name, _, _ in agents] == [f"rank-{rank}" for rank in range(6)]
    assert all(command[-2:] == [sys.executable, "train.py"] for _, command, _ in agents)
    last = agents[4][2]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    assert [last[name] for name in names] == ["4", "1", "6", "3", "1"]
    assert (last["GROUP_WORLD_SIZE"], last["MASTER_ADDR"]) == ("2", "127.0.0.1")
    given = found.variables()
    assert given["TRNSIM_INSTANCE"] == "trn2.48xlarge"
    assert given["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"
    assert given["NEURON_LOGICAL_NC_CONFIG"] == "2"
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD" not in given


def test_with_torch_an_agent_starts_the_ranks_of_each_node(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    found = job(COMMAND, "trn1.32xlarge", FOLDER, nodes=2)
    (name, command, more), second = found.agents()
    assert (name, more, second[0]) == ("node-0", {}, "node-1")
    text = " ".join(command)
    assert re.search("-m torch.distributed.run --nnodes 2 --nproc-per-node 32 --node-rank 0", text)
    assert text.endswith(f"supervisor.py {sys.executable} train.py")
    assert found.target == "trn1"
    assert found.fabric.lnc == 1


def test_cores_that_are_visible_place_the_ranks(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "8-11")
    found = job(COMMAND, "trn2.48xlarge", FOLDER)
    assert (found.fabric.first, found.fabric.ranks_per_node) == (8, 4)
    assert found.launch_variable(1, "t", 0)["first_core"] == 8
    assert "NEURON_RT_VISIBLE_CORES" not in found.variables()
    assert job(COMMAND, "trn2.48xlarge", FOLDER, ranks_per_node=2).fabric.ranks == 2
    with pytest.raises(BadInput, match="5 ranks a node, and NEURON_RT_VISIBLE_CORES names 4"):
        job(COMMAND, "trn2.48xlarge", FOLDER, ranks_per_node=5)
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "8,9,10-11")
    assert job(COMMAND, "trn2.48xlarge", FOLDER).fabric == found.fabric
    for named in ("8,10", "a", "3-1"):
        monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", named)
        with pytest.raises(BadInput, match=f"NEURON_RT_VISIBLE_CORES='{named}' does not name core"):
            job(COMMAND, "trn2.48xlarge", FOLDER)


def test_ranks_of_several_cores_are_spread_over_the_devices(monkeypatch):
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    found = job(COMMAND, "trn2.48xlarge", FOLDER, cores_per_rank=4)
    assert [found.fabric.place(rank).chip for rank in range(found.fabric.ranks)] == [*range(16)]
    assert found.launch_variable(1, "t", 0)["rank_cores"] == 4
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "8-15")
    assert job(COMMAND, "trn2.48xlarge", FOLDER, cores_per_rank=4).fabric.ranks == 2
    with pytest.raises(BadInput, match="3 ranks of 4 cores a node, and NEURON_RT_VISIBLE_CORES"):
        job(COMMAND, "trn2.48xlarge", FOLDER, ranks_per_node=3, cores_per_rank=4)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "a.py", "x.py"), (sys.executable, "a.py", "x.py")),
        (("python3", "-m", "a"), (sys.executable, "-m", "a")),
        (("a.py", "--x"), (sys.executable, "a.py", "--x")),
        (("/usr/bin/python3", "a.py"), ("/usr/bin/python3", "a.py")),
        (("./a.sh",), ("./a.sh",)),
    ],
)
def test_python_is_the_one_that_runs_trnsim(command, expected):
    assert job(command, "trn2.48xlarge", FOLDER).command == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"command": ()}, "no program to launch"),
        ({"instance": "trn9.large"}, "trn9.large"),
        ({"instance": "trn2.48xlarge", "ranks_per_node": 65}, "65 ranks on trn2.48xlarge"),
        ({"cores_per_rank": 0}, "--cores-per-rank 0; legal: 1 or more"),
        ({"cores_per_rank": 2**31}, "--cores-per-rank 2147483648; legal: 1 or more, at most 2,147"),
        ({"cores_per_rank": 65}, "0 ranks of 65 cores each on trn2.48xlarge"),
        ({"ranks_per_node": 17, "cores_per_rank": 4}, "17 ranks of 4 cores each on trn2.48xlarge"),
        ({"nodes": 0}, "nodes=0 on trn2.48xlarge; legal: a whole number from 1 to 2,147"),
        ({"nodes": -1}, "nodes=-1 on trn2.48xlarge; legal: a whole number from 1 to 2,147"),
        (
            {"ranks_per_node": -2},
            "ranks_per_node=-2 on trn2.48xlarge; legal: a whole number from 0",
        ),
        ({"fault_texts": ("rank=64,step=1",)}, "a fault of rank 64, and there are ranks 0 to 63"),
        ({"fault_texts": ("link=chip 0 to chip 5",)}, "has no link 'chip 0 to chip 5'"),
        ({"fault_texts": ("link=EFA 16, out",)}, "has no link 'EFA 16, out'; it has 64, and 16"),
        ({"fault_texts": ("link=instance 1, EFA 0",)}, "has no link 'instance 1, EFA 0'"),
        (
            {"fault_texts": tuple(f"link=EFA {at}, in" for at in range(16)), "nodes": 2},
            "no way is left into instance 0: all of its 16 EFA adapters are dead",
        ),
        ({"instance": "trn2.48xlrage"}, "fix: perhaps 'trn2.48xlarge' or "),
        ({"fault_texts": ("disk=full",)}, "is no fault"),
    ],
)
def test_what_cannot_be_launched_is_refused(options, reason):
    options = {"command": COMMAND, "instance": "trn2.48xlarge", "folder": FOLDER} | options
    with pytest.raises(BadInput) as refused:
        job(**options)
    assert reason in str(refused.value)


def test_a_fault_of_an_adapter_has_the_name_that_the_report_prints():
    texts = ("link=instance 1, EFA 0, in,factor=0.5", "link=EFA 3")
    found = job(COMMAND, "trn2.48xlarge", FOLDER, nodes=2, fault_texts=texts)
    assert found.fabric.factors == {"instance 1, EFA 0, in": 0.5, "EFA 3": 0.0}
    assert "instance 1, EFA 0, in" in found.fabric.names
    assert found.variables()["TRNSIM_FAULTS"] == ";".join(texts)


@pytest.mark.parametrize(("instance", "value"), [("trn2.48xlarge", "x"), ("trn1.32xlarge", "2")])
def test_an_lnc_that_the_instance_lacks_is_refused(monkeypatch, instance, value):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", value)
    with pytest.raises(BadInput, match=f"NEURON_LOGICAL_NC_CONFIG='{value}' on trn"):
        job(COMMAND, instance, FOLDER)

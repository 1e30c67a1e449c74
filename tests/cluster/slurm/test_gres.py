"""gres.conf and slurm.conf: a line for each device where pairs differ, and links by sets."""

import re

import pytest

from trnsim.cluster.slurm.gres import gres_conf, links, node_types, slurm_conf
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model

TRN2, INF2 = instance_model("trn2.48xlarge"), instance_model("inf2.48xlarge")
SMALL = instance_model("trn1.2xlarge")


def rows(text):
    """The pairs of each line that is no comment."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [dict(pair.split("=", 1) for pair in line.split()) for line in lines]


def test_links_of_a_torus_follow_aligned_groups_and_not_its_neighbours():
    found = links("trn2.48xlarge", 16)
    for one in range(16):
        for other in range(16):
            groups = sum(one // size == other // size for size in (4, 8, 16))
            assert found[one][other] == (-1 if one == other else groups)


def test_links_of_a_ring_fall_with_distance():
    found = links("inf2.48xlarge", 12)
    assert found[5] == [7, 14, 21, 28, 35, -1, 36, 30, 24, 18, 12, 6]  # runs with both
    assert all(found[one][other] == found[other][one] for one in range(12) for other in range(12))


def test_each_device_of_a_node_has_a_line_with_its_links():
    text = gres_conf(node_types([TRN2], ["trn2-[1-4]"]))
    found = rows(text)
    assert [row["File"] for row in found] == [f"/dev/neuron{device}" for device in range(16)]
    assert {row["NodeName"] for row in found} == {"trn2-[1-4]"}
    assert {row["Name"] for row in found} == {"neuron"}
    assert found[4]["Links"] == "2,2,2,2,-1,3,3,3,1,1,1,1,1,1,1,1"
    assert "# trn2.48xlarge: --gres=neuron:N, N = 1, 4, 8, 16\n" in text
    assert "dra.rst" in text


def test_a_node_with_one_device_has_one_line():
    (row,) = rows(gres_conf(node_types([SMALL], [])))
    assert row == {"NodeName": "trn1-2xlarge-1", "Name": "neuron", "File": "/dev/neuron0"}


def test_devices_that_are_all_alike_share_a_line(monkeypatch):
    monkeypatch.setattr("trnsim.cluster.slurm.gres.links", lambda *_: [[-1, 1], [1, -1]])
    types = node_types([SMALL], [])
    monkeypatch.setattr(type(types[0]), "devices", 2)
    (row,) = rows(gres_conf(types))
    assert row["File"] == "/dev/neuron[0-1]"


def test_slurm_conf_has_the_same_nodes():
    text = slurm_conf(node_types([TRN2, INF2, SMALL], ["a[1-2]", "b", "c"]))
    assert text.splitlines()[2:] == [
        "GresTypes=neuron",
        "SelectType=select/cons_tres",
        "NodeName=a[1-2] CPUs=192 RealMemory=1992294 Gres=neuron:16 State=UNKNOWN",
        "NodeName=b CPUs=192 RealMemory=747110 Gres=neuron:12 State=UNKNOWN",
        "NodeName=c CPUs=8 RealMemory=31129 Gres=neuron:1 State=UNKNOWN",
    ]
    without = slurm_conf(node_types([instance_model("trn2n.48xlarge")], []))
    assert "CPUs=192 Gres=neuron:16" in without  # AWS states no memory


@pytest.mark.parametrize(
    ("models", "hosts", "reason"),
    [
        (
            [TRN2],
            ["a", "b"],
            "--node-names is given 2 times for 1 instance types; legal: once for each",
        ),
        ([TRN2, INF2], ["a[1-3]", "b,a2"], "--node-names 'b,a2' has a2 again"),
        ([TRN2], ["a b"], "--node-names 'a b' is no list of hosts"),
        ([TRN2], ["a\nNodeName=evil"], "is no list of hosts"),
        ([TRN2], ["a[1-"], "--node-names='a[1-' is no list of hosts"),
        (
            [instance_model("Trn2 UltraServer (u-trn2x64)")],
            [],
            "Trn2 UltraServer (u-trn2x64) is several machines; a node of Slurm is one",
        ),
    ],
)
def test_lists_that_name_no_nodes_are_refused(models, hosts, reason):
    with pytest.raises(BadInput, match=re.escape(reason)):
        node_types(models, hosts)

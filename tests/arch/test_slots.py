import re

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.arch.slots import slots
from trnsim.facts import Evidence

NEURON = [one for one in catalogue().instances.values() if one.accelerator in catalogue().chips]


@pytest.mark.parametrize("row", NEURON, ids=lambda row: row.name)
def test_each_device_has_an_address_of_its_own_and_a_node_that_exists(row):
    found = slots(row.name, row.count, row.vcpus)
    assert len(set(found.bdf)) == len(found.bdf) == len(found.numa_node) == row.count
    assert all(re.fullmatch(r"0000:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", one) for one in found.bdf)
    nodes = {max(node, 0) for node in found.numa_node}
    assert nodes == set(range(len(found.node_cpus)))


def cpus(text):
    parts = [part.split("-") for part in text.split(",")]
    return {cpu for first, last in parts for cpu in range(int(first), int(last) + 1)}


@pytest.mark.parametrize("row", NEURON, ids=lambda row: row.name)
def test_the_nodes_share_out_the_processors(row):
    nodes = [cpus(text) for text in slots(row.name, row.count, row.vcpus).node_cpus]
    assert set().union(*nodes) == set(range(row.vcpus))
    assert sum(map(len, nodes)) == row.vcpus


def test_what_a_page_lists_is_documented_and_all_else_is_assumed():
    kinds = {row.name: slots(row.name, row.count, row.vcpus).provenance.kind for row in NEURON}
    documented = {name for name, kind in kinds.items() if kind is Evidence.DOCUMENTED}
    assert documented == {"trn1.32xlarge", "inf2.48xlarge", "trn2.48xlarge", "trn2n.48xlarge"}
    assert set(kinds.values()) == {Evidence.DOCUMENTED, Evidence.ASSUMED}


def test_a_single_device_is_where_a_page_shows_it():
    assert slots("trn1.2xlarge", 1, 8).bdf == ("0000:00:1e.0",)
    assert slots("trn1.2xlarge", 1, 8).cpu_affinity(0) == "0-7"
    assert slots("trn1.2xlarge", 1, 8).numa_node == (-1,)


def test_the_listed_places_are_the_pages_own():
    """The first and last rows of the page's three tables, typed from them."""
    trn2 = slots("trn2n.48xlarge", 16, 192)
    assert (trn2.bdf[0], trn2.bdf[15]) == ("0000:cc:00.0", "0000:f7:00.0")
    assert (trn2.cpu_affinity(0), trn2.cpu_affinity(4)) == ("48-95,144-191", "0-47,96-143")
    inf2 = slots("inf2.48xlarge", 12, 192)
    assert (inf2.bdf[0], inf2.numa_node[0]) == ("0000:80:1e.0", 2)
    assert (inf2.bdf[11], inf2.cpu_affinity(11)) == ("0000:20:1d.0", "24-47,120-143")
    assert slots("trn1n.32xlarge", 16, 128).bdf == slots("trn1.32xlarge", 16, 128).bdf

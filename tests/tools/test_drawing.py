import pytest

from trnsim.instance.model import instance_model
from trnsim.tools.drawing import drawing


def test_a_torus_is_drawn_with_its_wrap_around_links():
    lines = drawing(instance_model("trn2n.48xlarge")).splitlines()
    assert lines[0] == "Neuron Device Topology"
    assert lines[1] == "      *        *        *        *      "
    assert lines[4].startswith("*\u2013\u2013►[ 0 ]◄\u2013\u2013►[ 1 ]")
    assert (
        lines[16]
        == "*\u2013\u2013►"
        + "◄\u2013\u2013►".join(f"[{index} ]" for index in (12, 13, 14, 15))
        + "◄\u2013\u2013*"
    )
    assert lines[-1] == "        *\u2013\u2013► = Wrap-around link"


def test_marks_stand_over_the_last_digit_of_each_device():
    lines = drawing(instance_model("trn1.32xlarge")).splitlines()
    row = next(line for line in lines if "[12 ]" in line)
    above = lines[lines.index(row) - 1]
    assert [index for index, mark in enumerate(above) if mark == "▼"] == [
        row.index(f"{device} ]") + 1 for device in (12, 13, 14, 15)
    ]


@pytest.mark.parametrize(("name", "count"), [("inf2.48xlarge", 12), ("inf2.24xlarge", 6)])
def test_a_ring_is_one_closed_row(name, count):
    lines = drawing(instance_model(name)).splitlines()
    assert lines[1].count("[") == count
    assert (lines[1][0], lines[1][-1]) == ("*", "*")


def test_a_chain_is_one_open_row_without_a_legend():
    assert drawing(instance_model("inf1.6xlarge")).splitlines() == [
        "Neuron Device Topology",
        "    [ 0 ]◄\u2013\u2013►[ 1 ]◄\u2013\u2013►[ 2 ]◄\u2013\u2013►[ 3 ]",
    ]


def test_a_torus_of_three_dimensions_is_its_squares():
    text = drawing(instance_model("Trn2 UltraServer (u-trn2x64)"))
    assert all(f"[{index:>2} ]" in text for index in range(64))
    assert text.count("[") == 64
    assert "The squares form a ring: a device is joined to those at its place" in text


def test_devices_behind_switches_are_said_to_be():
    text = drawing(instance_model("Trn3 Gen1 UltraServer"))
    assert "4 devices of a server are joined by its switch" in text
    assert "[" not in text


@pytest.mark.parametrize("name", ["trn2.3xlarge", "inf1.xlarge", "inf2.8xlarge"])
def test_one_device_has_no_links(name):
    assert drawing(instance_model(name)) == ""

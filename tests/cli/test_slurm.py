"""`trnsim slurm`: files for Slurm, and refusals of a launch that is no task of Slurm."""

import json
import os

import pytest

from trnsim.cli import app
from trnsim.cli import slurm as command
from trnsim.errors import BadInput


@pytest.fixture(autouse=True)
def _without_slurm(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("TRNSIM_INSTANCE", raising=False)


def called(*arguments):
    app(args=["slurm", *map(str, arguments)], standalone_mode=False)


def test_gres_prints_and_writes_both_files(tmp_path, capsys):
    options = ("--on", "trn2.48xlarge,trn1.2xlarge", "--node-names", "a-[1-4]", "--node-names", "b")
    called("gres", *options, "--folder", tmp_path)
    printed = capsys.readouterr().out
    for name in ("gres.conf", "slurm-neuron.conf"):
        assert (tmp_path / name).read_text() in printed
        assert f"wrote {tmp_path / name}\n" in printed
    called("gres", *options, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "slurm-gres/1"
    assert [node["counts"] for node in answer["nodes"]] == [[1, 4, 8, 16], [1]]
    assert answer["files"]["gres.conf"] == (tmp_path / "gres.conf").read_text()


def test_gres_without_a_name_is_of_this_instance(monkeypatch, capsys):
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf2.xlarge")
    called("gres")
    assert "NodeName=inf2-xlarge-1 Name=neuron File=/dev/neuron0\n" in capsys.readouterr().out


def test_a_launch_outside_of_slurm_says_how_to_start_it():
    with pytest.raises(BadInput, match="SLURM_JOB_ID is not set: this is no task of a step"):
        called("launch", "--on", "trn2", "--", "python", "train.py")


def test_a_node_is_the_instance_that_it_names(tmp_path, monkeypatch):
    product = tmp_path / "product_name"
    monkeypatch.setattr(command, "_PRODUCT", product)
    with pytest.raises(BadInput, match="this node is of no named type, no instance with Neuron"):
        command._model(None)
    product.write_text("m7i.large\n")
    with pytest.raises(BadInput, match=r"this node is m7i\.large, no instance with Neuron"):
        command._model(None)
    product.write_text("trn2.48xlarge\n")
    assert command._model(None).name == "trn2.48xlarge"
    assert command._model(["trn1"]).name == "trn1.32xlarge"
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf2.xlarge")
    assert command._model(None).name == "inf2.xlarge"

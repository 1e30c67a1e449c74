"""Devices from what scontrol 22.05 prints, and from later forms of it."""

import pytest
from slurm_cases import JOB, STEP, ask

from trnsim.cluster.slurm.allocation import job_devices, scontrol, step_device_count
from trnsim.errors import BadInput


def test_each_node_has_the_devices_that_slurm_numbers():
    assert job_devices(STEP, ask()) == {"n1": (0, 1, 2, 3), "n2": (4, 5, 6, 7)}
    several = "gpu:2(IDX:0-1),neuron:trn2:3(IDX:0,8-9)"
    assert job_devices(STEP, ask(first=several))["n1"] == (0, 8, 9)


def test_nodes_of_one_line_share_it():
    text = JOB.replace("Nodes=n1 ", "Nodes=n[1-2] ").replace("Nodes=n2 ", "Nodes=n3 ")
    assert job_devices(STEP, ask(job=text))["n2"] == (0, 1, 2, 3)


def test_of_an_array_the_record_of_the_job_itself_is_read():
    other = JOB.replace("JobId=7 ", "JobId=8 ").replace("{first}", "neuron:1(IDX:9)")
    assert job_devices(STEP, ask(job=other + JOB))["n1"] == (0, 1, 2, 3)


def test_a_cluster_that_declares_no_devices_gives_whole_nodes():
    assert job_devices(STEP, ask(first="", second="", gres="(null)")) == {"n1": (), "n2": ()}
    assert job_devices(STEP, ask(first="gpu:1(IDX:0)", second="", gres="gpu:1"))["n1"] == ()


@pytest.mark.parametrize("gres", ["neuron:16", "gpu:1,neuron:trn2:16", "neuron:16(S:0-1)"])
def test_a_job_without_devices_where_there_are_some_is_refused(gres):
    with pytest.raises(BadInput) as raised:
        job_devices(STEP, ask(first="", gres=gres))
    assert raised.value.reason == "job 7 requests none of the Neuron devices of n1"
    assert raised.value.fix == "sbatch --gres=neuron:16"


@pytest.mark.parametrize("form", ["neuron:4(CNT:4)", "neuron:4(IDX:N/A)"])
def test_devices_that_are_only_counted_are_refused(form):
    with pytest.raises(BadInput, match="Slurm counts the devices and does not number them"):
        job_devices(STEP, ask(second=form))


def test_a_node_that_scontrol_does_not_name_is_refused():
    with pytest.raises(BadInput, match="has no line on n2"):
        job_devices(STEP, ask(job=JOB.replace("Nodes=n2 ", "Nodes=n9 ")))


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ("", None),
        ("   TresPerStep=cpu:1", None),
        ("   TresPerNode=gres:neuron:4", 4),
        ("   TresPerNode=gres/neuron:4", 4),
        ("   TresPerNode=gres/neuron:trn2=4", 4),
        ("   TresPerNode=gres:gpu:2,gres:neuron:8", 8),
        ("   TresPerNode=gres:neuron", 1),
        ("   TresPerTask=gres:neuron:2", 2),
        ("   TresPerNode=gres:neuronx:4", None),
    ],
)
def test_the_number_of_a_steps_devices(more, count):
    assert step_device_count(STEP, ask(more=more)) == count


def test_scontrol_that_is_missing_or_fails_is_said(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"show job 7: there is no scontrol on PATH; .* not known"):
        scontrol(["show", "job", "7"])
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho Invalid job id specified >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="scontrol show job 7: "):  # it may not be run yet
        scontrol(["show", "job", "7"])
    (tmp_path / "scontrol").chmod(0o755)
    with pytest.raises(BadInput, match="scontrol show job 7: Invalid job id specified; without"):
        scontrol(["show", "job", "7"])


def test_bytes_that_are_no_text_are_read_past(tmp_path, monkeypatch):
    (tmp_path / "scontrol").write_bytes(b"#!/bin/sh\nprintf 'JobName=\\377 x'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert scontrol(["show", "job", "7"]) == "JobName=\ufffd x"

"""Nodes of MPI and of Slurm."""

import sys
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.tools.nccom.hosts import NodeOptions, job_nodes, node_notes

JOB = "JobId=123 JobName=x JobState=RUNNING NodeList=trn-[1-2] BatchHost=trn-1 NumNodes=2 NumCPUs=4"


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No root, no job of Slurm and no ~/hosts."""
    for name in ("NEURON_RT_ROOT_COMM_ID", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))


def told(**stated):
    return node_notes(NodeOptions(**stated), vcpus=128)


@pytest.fixture
def scontrol(tmp_path):
    if sys.platform == "win32":
        pytest.skip("Slurm does not run on Windows, nor does its stand-in, a shell script")

    def install(output, status=0):
        program = tmp_path / "scontrol"
        program.write_text(f"#!/bin/sh\necho '{output}'\nexit {status}\n")
        program.chmod(0o755)

    return install


def test_one_node_needs_no_hosts():
    assert told() == []
    (note,) = told(nnodes=2)
    assert note.startswith("--nnodes 2: AWS's tool needs --hosts, --hosts-file, ~/hosts or --slurm")


def test_a_user_without_a_home_has_no_file_of_hosts(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert len(told(nnodes=2)) == 1


def test_hosts_are_as_many_as_nodes(monkeypatch):
    (note,) = told(nnodes=2, hosts=("a", "b"))
    assert note.startswith("NEURON_RT_ROOT_COMM_ID is not set: AWS's tool needs the address of")
    monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", "10.1.4.145:45654")
    assert told(nnodes=2, hosts=("a", "b")) == []
    with pytest.raises(BadInput, match=r"--hosts names 1 hosts with --nnodes 2; legal: as many"):
        told(nnodes=2, hosts=("a",))
    with pytest.raises(BadInput, match=r"--hosts names a host ''; legal: names or addresses"):
        told(nnodes=2, hosts=("a", " "))
    with pytest.raises(BadInput, match=r"--hosts names 'a' twice; legal: once"):
        told(nnodes=2, hosts=("a", "a"))


@pytest.mark.parametrize("root", ["10.1.4.145", "a:0", "a:65536", ":1", "a b:1", "a:1:2"])
def test_a_root_is_a_host_and_a_port(monkeypatch, root):
    monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", root)
    with pytest.raises(BadInput, match=r"NEURON_RT_ROOT_COMM_ID='.*'; legal: HOST:PORT"):
        told(nnodes=2, hosts=("a", "b"))


@pytest.mark.parametrize("root", ["a:1", "10.0.0.1:65535", "[fe80::1]:62182"])
def test_a_root_of_any_family_is_taken(monkeypatch, root):
    monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", root)
    assert told(nnodes=2, hosts=("a", "b")) == []


def test_hosts_stand_in_a_file(tmp_path):
    path = tmp_path / "nodes.txt"
    path.write_text("a\n\n# spare\nb # second\n")
    assert len(told(nnodes=2, hosts_file=path)) == 1
    with pytest.raises(BadInput, match=r"--hosts and --hosts-file; legal: one of them"):
        told(nnodes=2, hosts_file=path, hosts=("a",))
    path.write_text("a slots=2\nb\n")
    with pytest.raises(BadInput, match=r"nodes\.txt: host 1 is 'a slots=2'; legal: one host a lin"):
        told(nnodes=2, hosts_file=path)
    path.write_text("\n")
    with pytest.raises(BadInput, match=r"nodes\.txt names no host; legal: one a line"):
        told(nnodes=2, hosts_file=path)
    with pytest.raises(BadInput, match=r"absent\.txt"):
        told(nnodes=2, hosts_file=tmp_path / "absent.txt")


def test_the_file_of_the_home_folder_is_read(tmp_path):
    (tmp_path / "hosts").write_text("a\nb\nc\n")
    assert told() == []  # of one node it is not asked
    with pytest.raises(BadInput, match=r"hosts names 3 hosts with --nnodes 2"):
        told(nnodes=2)
    assert told(nnodes=3) != []


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ({"slurm_vcpus_per_node": 4}, "--slurm-vcpus-per-node"),
        ({"slurm_setup_script": "default"}, "--slurm-setup-script"),
        ({"slurm_job_id": "1"}, "--slurm-job-id"),
        ({"slurm_use_head_node_neuron_bench": True}, "--slurm-use-head-node-neuron-bench"),
    ],
)
def test_options_of_slurm_need_its_mode(stated, name):
    with pytest.raises(BadInput, match=rf"{name}; legal: with --slurm-mode"):
        told(**stated)


def test_a_new_allocation_is_not_made(tmp_path):
    script = tmp_path / "setup.sh"
    script.write_text(f"touch {tmp_path / 'ran'}\n")
    notes = told(nnodes=2, slurm_mode=True, slurm_setup_script=str(script))
    assert notes == [
        "--slurm-mode: AWS's tool would allocate 2 nodes; the estimate allocates none",
        f"--slurm-setup-script {script}: not run",
    ]
    assert not (tmp_path / "ran").exists()
    assert told(slurm_mode=True, slurm_setup_script="default")[1].endswith("default: not run")
    with pytest.raises(BadInput, match=r"absent\.sh"):
        told(slurm_mode=True, slurm_setup_script=str(tmp_path / "absent.sh"))


def test_slurm_has_no_hosts_of_mpi_and_no_more_vcpus_than_the_instance():
    with pytest.raises(BadInput, match=r"--slurm-mode and hosts of MPI; legal: one of them"):
        told(slurm_mode=True, hosts=("a",))
    assert told(slurm_mode=True, slurm_vcpus_per_node=128)
    with pytest.raises(BadInput, match=r"--slurm-vcpus-per-node 129; legal: up to 128"):
        told(slurm_mode=True, slurm_vcpus_per_node=129)


def test_the_nodes_of_the_own_job_are_in_its_variables(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "trn-[1-2]")
    assert job_nodes("7") == (2, "trn-[1-2]", "")
    (note,) = told(nnodes=2, slurm_mode=True, slurm_job_id="7")
    assert note == "--slurm-job-id: job 7 has 2 nodes: trn-[1-2]; nothing runs on them"
    with pytest.raises(BadInput, match=r"job 7 has 2 nodes \(trn-\[1-2\]\) with --nnodes 3; legal"):
        told(nnodes=3, slurm_mode=True, slurm_job_id="7")


def test_the_nodes_of_another_job_are_told_by_scontrol(monkeypatch, scontrol):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    scontrol(JOB)
    assert job_nodes("123") == (2, "trn-[1-2]", "RUNNING")
    scontrol(JOB.replace("RUNNING", "PENDING"))
    with pytest.raises(BadInput, match=r"job 123 is PENDING; legal: a running one"):
        told(nnodes=2, slurm_mode=True, slurm_job_id="123")


def test_a_job_that_is_not_known_is_refused(scontrol):
    with pytest.raises(BadInput, match=r"--slurm-job-id 123: there is no scontrol on PATH"):
        job_nodes("123")
    scontrol("Invalid job id specified", 1)
    with pytest.raises(BadInput, match=r"does not know its nodes: Invalid job id specified; legal"):
        job_nodes("123")
    for job in ("", "x", "1;2", "-1", "1 2", "--help"):
        with pytest.raises(BadInput, match=r"--slurm-job-id '.*'; legal: alloc, or the number of"):
            job_nodes(job)

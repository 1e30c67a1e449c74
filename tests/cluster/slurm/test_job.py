"""A step as a job: its ranks below each task, their variables, and what is refused."""

import socket
import sys
from dataclasses import replace

import pytest
from slurm_cases import FIRST, STEP, ask

from trnsim.cluster.slurm.announcement import await_announcement
from trnsim.cluster.slurm.job import interface, ranks_of_node, slurm_job
from trnsim.cluster.slurm.node_cores import node_cores
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model

TRN2 = instance_model("trn2.48xlarge", 2)
EACH_A_RANK = replace(STEP, tasks_per_node=(2, 2), task=3, local_task=1)


def made(step, folder, monkeypatch, **options):
    monkeypatch.setattr(
        "trnsim.cluster.slurm.job.node_cores", lambda *given: node_cores(*given, ask())
    )
    return slurm_job((sys.executable, "-c", ""), step, TRN2, folder, **options)


def test_a_task_alone_on_its_node_has_a_rank_for_each_core(tmp_path, monkeypatch):
    job = made(STEP, tmp_path, monkeypatch)
    assert (job.fabric.ranks, job.fabric.ranks_per_node) == (32, 16)
    assert (job.cores, job.local_ranks) == (range(16, 32), range(16, 32))
    assert (job.hosts, job.master, job.through_torch) == (("n1", "n2"), "n1", False)


def test_ranks_of_a_task_have_the_variables_of_torchrun(tmp_path, monkeypatch):
    job = made(STEP, tmp_path, monkeypatch, ranks_per_node=2)
    (name, command, variables), (_, _, last) = job.agents()
    assert (name, command[-3:]) == ("rank-2", [sys.executable, "-c", ""])
    assert variables["MASTER_ADDR"] == "n1"
    assert variables["MASTER_PORT"] == str(job.master_port)
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    assert [last[name] for name in names] == ["3", "1", "1", "4", "2"]


def test_a_task_of_several_on_its_node_is_a_rank(tmp_path, monkeypatch):
    job = made(EACH_A_RANK, tmp_path, monkeypatch)
    assert (job.fabric.ranks, job.local_ranks) == (4, range(3, 4))
    ((name, _, variables),) = job.agents()
    assert (name, variables["LOCAL_RANK"]) == ("rank-3", "1")


def test_the_launcher_is_announced_with_the_first_nodes_port(tmp_path, monkeypatch):
    job = made(FIRST, tmp_path, monkeypatch)
    launch = job.launch_variable(5, "token", 0)
    assert (launch["host"], launch["port"], launch["first_core"]) == ("n1", 5, 0)
    job.announce(launch)
    assert await_announcement(job.announcement, STEP, 0) == launch | {
        "master_port": job.master_port
    }


def test_one_node_stays_on_the_loopback(tmp_path, monkeypatch):
    job = made(replace(FIRST, hosts=("n1",), tasks_per_node=(1,)), tmp_path, monkeypatch)
    assert (job.address, job.master) == ("127.0.0.1", "127.0.0.1")
    assert made(FIRST, tmp_path, monkeypatch).address == "0.0.0.0"  # noqa: S104


def test_gloo_takes_the_interface_towards_the_other_node(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "trnsim.cluster.slurm.job.interface", lambda host: asked.append(host) or "eth9"
    )
    assert made(STEP, tmp_path, monkeypatch).variables()["GLOO_SOCKET_IFNAME"] == "eth9"
    assert made(FIRST, tmp_path, monkeypatch).variables()["GLOO_SOCKET_IFNAME"] == "eth9"
    assert asked == ["n1", "n2"]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "users")
    assert made(STEP, tmp_path, monkeypatch).variables()["GLOO_SOCKET_IFNAME"] == "users"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell gloo themselves")
def test_the_interface_towards_this_machine_is_the_loopback(monkeypatch):
    assert interface("127.0.0.1") == "lo"

    def no_name(*_):
        raise socket.gaierror

    monkeypatch.setattr(socket.socket, "connect", no_name)
    assert interface("no-such-host") == ""


@pytest.mark.parametrize(
    ("tasks", "asked", "reason"),
    [
        ((2, 1), 0, "step 7.0 has 2, 1 tasks on its nodes; legal: as many on each"),
        ((2, 2), 4, "--ranks-per-node 4, and step 7.0 has 2 tasks on each node"),
    ],
)
def test_tasks_that_differ_are_refused(tasks, asked, reason):
    with pytest.raises(BadInput) as raised:
        ranks_of_node(replace(FIRST, tasks_per_node=tasks), asked)
    assert raised.value.reason.startswith(reason)


def test_ranks_of_a_node_by_its_tasks():
    assert ranks_of_node(FIRST, 0) == 0
    assert ranks_of_node(FIRST, 3) == 3
    assert ranks_of_node(EACH_A_RANK, 0) == ranks_of_node(EACH_A_RANK, 2) == 2


def test_ranks_of_several_cores_have_room_for_them(tmp_path, monkeypatch):
    job = made(STEP, tmp_path, monkeypatch, ranks_per_node=4, cores_per_rank=4)
    assert [job.fabric.place(rank) for rank in (4, 7)] == [(1, 4, 0), (1, 7, 0)]
    with pytest.raises(BadInput, match=r"5 ranks of 4 cores on n2, and step 7\.0 has 16 logical"):
        made(STEP, tmp_path, monkeypatch, ranks_per_node=5, cores_per_rank=4)


def test_more_ranks_than_cores_are_refused(tmp_path, monkeypatch):
    with pytest.raises(BadInput) as raised:
        made(STEP, tmp_path, monkeypatch, ranks_per_node=17)
    assert raised.value.reason == (
        "17 ranks on n2, and step 7.0 has 16 logical cores there, 16 to 31"
    )

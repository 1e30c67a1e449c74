"""The first task's file: private, whole, and missed with the reason."""

import json
import socket
import stat
from dataclasses import replace

import pytest
from slurm_cases import FIRST, STEP

from trnsim.cluster.slurm.announcement import (
    announce,
    await_announcement,
    path_of,
    refuse,
)
from trnsim.errors import BadInput


def test_what_is_announced_is_read_by_the_same_user_alone(tmp_path):
    path = path_of(tmp_path, FIRST)
    assert path == path_of(tmp_path, STEP)
    announce(path, {"port": 1, "token": "secret"})
    assert await_announcement(path, STEP, 0) == {"port": 1, "token": "secret"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [".step-7.0.0.json"]


def test_a_folder_that_is_not_shared_is_the_reason(tmp_path):
    with pytest.raises(BadInput) as raised:
        await_announcement(path_of(tmp_path, STEP), STEP, 0)
    assert raised.value.reason == (
        "task 1 on n2 has seen nothing of the first task of step 7.0, on n1, in 0 s: no "
        f"{tmp_path}/.step-7.0.0.json"
    )
    assert raised.value.fix == "name a folder that all nodes share: --report DIR"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cannot write .*No such file or directory"):
        announce(path_of(tmp_path / "none", STEP), {})


def test_a_first_task_that_starts_no_ranks_tells_the_others_why(tmp_path):
    path = path_of(tmp_path / "not yet", STEP)
    refuse(path, FIRST, "its devices are none")
    with pytest.raises(BadInput) as raised:
        await_announcement(path, STEP, 0)
    assert raised.value.reason == (
        "the first task of step 7.0, on n1, starts no ranks: its devices are none"
    )


def test_another_task_that_starts_no_ranks_tells_the_first(tmp_path):
    path = path_of(tmp_path, STEP)
    refuse(path, STEP, "why", wait_s=0)  # nobody listens: nothing to tell
    with socket.create_server(("127.0.0.1", 0)) as server:
        announce(path, {"host": "127.0.0.1", "port": server.getsockname()[1], "token": "secret"})
        refuse(path, STEP, "why")
        connection, _ = server.accept()
        with connection, connection.makefile() as lines:
            assert json.loads(lines.readline()) == {
                "token": "secret",
                "refusal": "task 1 on n2 starts no ranks: why",
            }


def test_a_task_alone_tells_nobody(tmp_path):
    alone = replace(FIRST, hosts=("n1",), tasks_per_node=(1,))
    refuse(path_of(tmp_path, alone), alone, "why")
    assert list(tmp_path.iterdir()) == []

"""The first task's file: private, whole, and missed with the reason."""

import stat

import pytest
from slurm_cases import FIRST, STEP

from trnsim.cluster.slurm.announcement import announce, await_announcement, path_of
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

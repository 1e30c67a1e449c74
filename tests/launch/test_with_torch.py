"""A program of PyTorch through its own agents, whose memory fails: it goes on from a checkpoint."""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.cli import app

PROGRAM = Path(__file__).parents[2] / "examples" / "train_ranks.py"


def test_a_rank_whose_memory_fails_is_named_and_all_go_on_from_the_checkpoint(tmp_path, capfd):
    options = ["--instance", "trn2.48xlarge", "--nodes", "2", "--ranks-per-node", "1"]
    options += ["--fault", "hbm-ecc=rank:1,step=3", "--max-restarts", "1"]
    options += ["--report", str(tmp_path / "made")]
    program = [sys.executable, str(PROGRAM), str(tmp_path / "saved.pt")]
    with pytest.raises(SystemExit) as ended:
        app(args=["launch", *options, "--", *program], standalone_mode=False)
    assert ended.value.code == 0
    said = capfd.readouterr()
    assert "rank 1 (node 1, local rank 0) ended with status 1 at step 3\n" in said.err
    assert "NRT_EXEC_HW_ERR_HBM_UE (1201) on rank 1 before step 3" in said.err
    steps = re.findall(r"^step (\d)|^(goes on) after step 2$", said.out, re.MULTILINE)
    found = [number or "again" for number, _ in steps]
    assert found == ["1", "2", "again", *"345678"]
    made = json.loads((tmp_path / "made" / "world.json").read_text())
    assert (made["restarts"], made["absent"]) == (1, [])
    assert [one["place"] for one in made["ranks"]] == [[0, 0, 0], [1, 0, 0]]
    assert all(one["steps"] == 6 and one["exchanged_s"] > 0 for one in made["ranks"])
    gradients = [one for one in made["collectives"] if one["nbytes"] == 4 * (16 * 64 + 64 + 65)]
    assert [one["calls"] for one in gradients if one["kind"] == "allreduce"] == [6]
    assert any("EFA" in one["name"] for one in made["links"])

"""A program of PyTorch through its own agents, whose memory fails: it goes on from a checkpoint."""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.cli import app
from trnsim.instance.state import folder, hardware

CATCHES = Path(__file__).parent / "catches_faults.py"
PROGRAM = Path(__file__).parents[2] / "examples" / "train_ranks.py"


@pytest.mark.slow
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


FAULTS = {
    "hbm-ecc=rank:0,step=1": ("hbm-ecc", 0),
    "hang=rank:0,step=2": ("hang", 0),
    "dma=rank:1,step=1": ("dma", 1),
    "thermal=rank:1,step=2": ("thermal", 1),
}


@pytest.mark.slow
def test_each_kind_of_fault_appears_in_the_state(tmp_path, capfd, monkeypatch):
    """Of a rank that catches the error and goes on; the faults stay counted after it."""
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    options = ["--instance", "trn2.48xlarge", "--ranks-per-node", "2"]
    options += [word for text in FAULTS for word in ("--fault", text)]
    made = tmp_path / "made"
    with pytest.raises(SystemExit) as ended:
        app(
            args=["launch", *options, "--report", str(made), "--", sys.executable, str(CATCHES)],
            standalone_mode=False,
        )
    assert ended.value.code == 0
    assert "did not strike" not in capfd.readouterr().err
    logs = [(made / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    said = [json.loads(log.splitlines()[-1]) for log in logs]
    counted = {"completed_with_err": 1, "hardware": 1}
    assert said == [
        [["NRT_EXEC_HW_ERR_HBM_UE", "NRT_TIMEOUT"], "trn2.48xlarge", [0],
         counted | {"timed_out": 1, "hardware": 2}],
        [["NRT_EXEC_HW_ERR_DMA_ABORT"], "trn2.48xlarge", [1], counted | {"transient": 1}],
    ]  # fmt: skip
    place = folder.state_folder()
    found = hardware.injected_faults(place)
    assert sorted((one.kind, one.core) for one in found) == sorted(FAULTS.values())
    assert {(one.device, one.is_active()) for one in found} == {(0, False)}
    assert hardware.counters(found, 1)[0]["mem_ecc_uncorrected"] == 1
    lines = (place / hardware.LOG).read_text().splitlines()
    assert sorted(re.findall(r"NEURON_HW_ERR=(\w+)", " ".join(lines))) == sorted(
        hardware.KINDS[kind].log_name for kind, _ in FAULTS.values()
    )

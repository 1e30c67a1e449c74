"""A program of JAX as ranks: joined without an argument, one lost, started again, one report."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("jax") is None, reason="JAX needs pip install 'trnsim[jax]'"
)

PROGRAM = Path(__file__).parents[2] / "examples" / "train_ranks_jax.py"


@pytest.mark.slow
def test_a_killed_process_of_jax_is_named_and_all_go_on_from_the_checkpoint(tmp_path):
    launched = subprocess.run(
        [
            sys.executable, "-m", "trnsim", "launch", "--instance", "trn2.48xlarge", "--nodes", "2",
            "--ranks-per-node", "1", "--fault", "rank=1,step=3", "--max-restarts", "1",
            "--report", "made", "--", "python", str(PROGRAM), "saved.npz",
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert launched.returncode == 0, launched.stderr
    assert "rank 1 (node 1, local rank 0) was ended by SIGKILL at step 3\n" in launched.stderr
    steps = re.findall(r"^step (\d)|^(goes on) after step 2$", launched.stdout, re.MULTILINE)
    assert [number or "again" for number, _ in steps] == ["1", "2", "again", *"345678"]
    made = json.loads((tmp_path / "made" / "world.json").read_text())
    assert (made["restarts"], made["absent"]) == (1, [])
    assert [one["place"] for one in made["ranks"]] == [[0, 0, 0], [1, 0, 0]]
    # The gradients of both layers and the loss, of each of the six steps since.
    told = {
        one["nbytes"]: (one["kind"], one["calls"], one["groups"]) for one in made["collectives"]
    }
    assert told == {4 * n: ("all_reduce", 6, [[0, 1]]) for n in (16 * 64, 64, 1)}
    each_s = sum(one["time_s"] for one in made["collectives"])
    for rank in made["ranks"]:
        assert (rank["steps"], rank["calls_without_time"]) == (6, 0)
        assert rank["device_time_s"] > 0
        assert rank["exchanged_s"] == pytest.approx(each_s)  # of one step, as the table says
    assert any("EFA" in one["name"] for one in made["links"])

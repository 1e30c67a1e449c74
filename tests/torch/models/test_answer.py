import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.answer import answer_script

MODEL = """import torch
model = torch.nn.Linear({0}, {1}, device='{2}')
args = (torch.zeros({3}, {0}, device='{2}'),)
"""


def answer(tmp_path, *sizes):
    path = tmp_path / "net.py"
    path.write_text(MODEL.format(*sizes))
    return answer_script(path, "trn2", lambda *_: (0.0, 0.0))


def test_ten_lines_say_what_a_graph_takes(tmp_path):
    found = answer(tmp_path, 64, 32, "cpu", 16)
    lines = found.text().splitlines()
    assert len(lines) == 10
    assert lines[0] == "net.py on trn2"
    # 4 bytes of 64 x 32 weights, 32 biases, 16 x 64 given and 16 x 32 made.
    assert found.least.hbm_bytes == 4 * (64 * 32 + 32 + 16 * 64 + 16 * 32)
    assert "14.1 KiB once over HBM" in lines[2]
    assert found.least.seconds < found.time_s
    assert lines[6] == "  exchanges  none: one rank"
    assert lines[9] == "  missing    nothing: every operator has a time"


def test_a_graph_over_hbm_is_refused(tmp_path):
    with pytest.raises(
        OutOfDeviceMemory, match=r"net.py needs 16 GiB of HBM at its peak; a NeuronCore of trn2 has"
    ):
        answer(tmp_path, 1 << 16, 1 << 16, "meta", 1)

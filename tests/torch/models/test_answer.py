import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.answer import answer_script

MODEL = """import torch
model = torch.nn.Linear({0}, {1}, device='{2}')
args = (torch.zeros({3}, {0}, device='{2}'),)
"""


def answer(tmp_path, *sizes, lnc=1):
    path = tmp_path / "net.py"
    path.write_text(MODEL.format(*sizes))
    return answer_script(path, "trn2", lambda *_: (0.0, 0.0), lnc=lnc)


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


def test_a_logical_core_of_two_has_two_shares_of_everything(tmp_path):
    one, two = (answer(tmp_path, 2048, 2048, "meta", 2048, lnc=lnc) for lnc in (1, 2))
    assert two.text().splitlines()[0] == "net.py on trn2 (LNC=2)"
    assert 0.5 < two.kernels_s / one.kernels_s < 0.6
    assert two.least.seconds == pytest.approx(one.least.seconds / 2)
    assert "of both cores' bf16 peak" in two.text()
    assert "of 24 GiB of a logical NeuronCore" in two.text()
    assert "of 12 GiB of a NeuronCore" in one.text()


def test_what_one_of_two_cores_does_is_told(tmp_path):
    text = answer(tmp_path, 63, 31, "cpu", 15, lnc=2).text()
    assert text.splitlines()[10].startswith("  cores      one of the two cores does all of: ")


def test_a_graph_over_hbm_is_refused(tmp_path):
    with pytest.raises(
        OutOfDeviceMemory, match=r"net.py needs 16 GiB of HBM at its peak; a NeuronCore of trn2 has"
    ):
        answer(tmp_path, 1 << 16, 1 << 16, "meta", 1)

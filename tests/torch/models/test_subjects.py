import re
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.compiler import Flags
from trnsim.lower import GraphExchange
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models import subjects

MODEL = """import torch
model = torch.nn.Linear({0}, {1}, device='{2}')
args = (torch.zeros({3}, {0}, device='{2}'),)
"""


def answer(tmp_path, *sizes, flags="", lnc=1):
    path = tmp_path / "net.py"
    path.write_text(MODEL.format(*sizes))
    return subjects.report_model(subjects.of_script(path), "trn2", Flags.parse(flags), lnc)


def test_a_dozen_lines_say_what_a_graph_takes(tmp_path):
    found = answer(tmp_path, 64, 32, "cpu", 16)
    lines = found.text(400).splitlines()
    assert [line.split()[0] for line in lines] == [
        *("net.py", "time", "parts", "from", "minimum", "use", "program"),
        *("modules", "operations", "exchanges", "memory", "missing"),
    ]
    assert lines[0] == "net.py on trn2"
    # 4 bytes of 64 x 32 weights, 32 biases, 16 x 64 given and 16 x 32 made.
    assert found.scaled_estimate.hbm_bytes == 4 * (64 * 32 + 32 + 16 * 64 + 16 * 32)
    assert "14.1 KiB once over HBM" in lines[4]
    assert "6.55e-05 GFLOP" in lines[5]
    assert found.scaled_estimate.bound_s < found.program.device_time_s < found.time_s
    assert lines[9] == "  exchanges   none: one rank"
    assert "8.12 KiB of weights, 4 KiB of inputs" in lines[10]
    assert lines[11] == "  missing     nothing: every operator has a time"


def test_the_long_text_has_the_tables_of_operations_and_of_hbm(tmp_path):
    text = answer(tmp_path, 64, 32, "cpu", 16).long_text()
    assert "dot_general" in text
    assert "HBM at the peak" in text
    assert "wherever they lie" in text


def test_flags_change_products_and_what_has_no_effect_is_said(tmp_path):
    plain = answer(tmp_path, 256, 256, "cpu", 256)
    cast = answer(tmp_path, 256, 256, "cpu", 256, flags="--auto-cast=all --no-cache")
    assert cast.program.device_time_s != plain.program.device_time_s
    assert cast.plan.input_bytes == plain.plan.input_bytes
    assert cast.program.bound.hbm_s < plain.program.bound.hbm_s
    assert cast.text(400).splitlines()[12:] == ["neuronx-cc", f"  {cast.compiler_notes[0]}"]
    assert cast.compiler_notes[0].startswith("--no-cache has no effect")


def test_the_run_that_a_report_shows_has_the_users_lines(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        y = x * 2\n"
        "        return y @ y\n"
        "model, args = Net(), (torch.zeros(8, 8),)\n"
    )
    found = subjects.report_model(subjects.of_script(path), "trn2")
    program = found.run().program
    lines = {(line.file, line.line) for line in program.lines}
    assert lines == {(str(path), 4), (str(path), 5)}
    assert sum(one >= 0 for one in program.line_of) > 0


@pytest.mark.slow
def test_a_logical_core_of_two_has_two_shares_of_everything(tmp_path):
    one, two = (answer(tmp_path, 2048, 2048, "meta", 2048, lnc=lnc) for lnc in (1, 2))
    assert two.text(400).splitlines()[0] == "net.py on trn2 (LNC=2)"
    assert 0.5 < two.program.device_time_s / one.program.device_time_s < 0.6
    assert two.scaled_estimate.bound_s == pytest.approx(one.scaled_estimate.bound_s / 2)
    assert "of both cores' bf16 peak" in two.text(400)
    assert "of 24 GiB of a logical NeuronCore" in two.text(400)
    assert "of 12 GiB of a NeuronCore" in one.text(400)


@pytest.mark.parametrize(("lnc", "title"), [(1, "net.py"), (2, "net.py, LNC=2")])
def test_a_report_says_over_how_many_cores_a_graph_is_split(tmp_path, lnc, title):
    assert answer(tmp_path, 64, 32, "cpu", 16, lnc=lnc).run().title == title


def test_what_one_of_two_cores_does_is_told(tmp_path):
    text = answer(tmp_path, 63, 31, "cpu", 15, lnc=2).text(400)
    assert text.splitlines()[12].startswith("  note        one of the two cores does all of: ")


def test_a_graph_over_hbm_is_refused(tmp_path):
    with pytest.raises(
        OutOfDeviceMemory,
        match=r"NCC_EVRF009: net.py needs 16 GiB of HBM at its peak; a NeuronCore of trn2 has",
    ):
        answer(tmp_path, 1 << 16, 1 << 16, "meta", 1)


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [(1, r"\d+ k tokens/s$"), (0, r"^  time        \S+ us \(\S+ us to \S+ us\)$")],
)
def test_the_rate_is_that_of_the_whole_time(tokens, wanted, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL.format(8, 8, "cpu", 1))
    subject = replace(subjects.of_script(path), items=("tokens", tokens))
    found = subjects.report_model(subject, "trn2")
    assert re.search(wanted, found.text(400).splitlines()[1])
    one = GraphExchange("all_reduce", 8, ((0, 1),))
    program = replace(found.program, exchanges=(one,))
    slow = replace(found, program=program, exchanges=((one, 0.1),)).text(400)
    assert slow.splitlines()[1].endswith(f", {10 * tokens} tokens/s" if tokens else " ms)")

import pytest
from typer.testing import CliRunner

from trnsim.cli.fault import app
from trnsim.errors import BadInput
from trnsim.instance.state import folder, hardware


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    return folder.opened()


def call(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_fault_is_injected_and_ended(place):
    done = call("hbm-ecc", "--device", "3", "--core", "1", "--for", "30s")
    assert done.exit_code == 0
    assert "emulated: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR" in done.output
    (one,) = hardware.injected(place)
    assert (one.kind, one.device, one.core, one.for_s) == ("hbm-ecc", 3, 1, 30.0)
    assert call("clear").output == "1 faults ended (emulated)\n"
    assert call("clear", "--device", "3").output == "0 faults ended (emulated)\n"


@pytest.mark.parametrize(
    ("text", "for_s"), [("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("3", 3)]
)
def test_durations(place, text, for_s):
    call("dma", "--device", "0", "--for", text)
    assert hardware.injected(place)[0].for_s == for_s


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fire", "--device", "3"],
            "fault 'fire' is not known; legal: hbm-ecc, hang",
        ),
        (["hang"], "trnsim fault hang needs a device"),
        (
            ["hang", "--device", "16"],
            r"device 16 does not exist: trn2\.48xlarge has",
        ),
        (["clear", "--device", "16"], "device 16 does not exist"),
        (["hang", "--device", "3", "--core", "4"], "core 4 does not exist: a device of .* 0 to 3"),
        (["hang", "--device", "3", "--for", "soon"], "--for 'soon' is no duration"),
        (["hang", "--device", "3", "--for", "0s"], "--for '0s' is no duration"),
    ],
)
def test_what_cannot_be_injected_is_refused(place, words, message):
    with pytest.raises(BadInput, match=message):
        call(*words)
    assert hardware.injected(place) == []

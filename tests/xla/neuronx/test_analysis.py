import json

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput
from trnsim.xla.neuronx.analysis import COMPILER, LOWERING, analyze

X = torch.randn(3, 8)

pytestmark = pytest.mark.slow  # it compiles programs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.log_softmax(self.second(torch.relu(self.first(x))), 1)


def test_operators_are_those_that_the_model_calls():
    report = analyze(Net(), X)
    assert report["supported_operators"] == {
        "aten::linear": 2,
        "aten::relu": 1,
        "aten::log_softmax": 1,
    }
    assert report["unsupported_operators"] == []
    assert report["support_percentage"] == "100.00%"


def test_a_type_that_no_chip_has_fails_in_the_compiler_with_its_line(tmp_path):
    report = analyze(torch.fft.fft, torch.arange(4), tmp_path / "work")
    (failed,) = report["unsupported_operators"]
    assert (failed["kind"], failed["failureAt"]) == ("aten::fft_fft", COMPILER)
    assert failed["call"].startswith(__file__)
    assert report["support_percentage"] == "0.00%"
    assert json.loads((tmp_path / "work" / "report.json").read_text()) == report


@pytest.mark.parametrize("names", ["aten::linear", None, [3]])
def test_ignored_operators_are_a_list_of_names(names):
    with pytest.raises(BadInput, match=r"additional_ignored_ops=.*; legal: names in a list"):
        analyze(Net(), X, additional_ignored_ops=names)


def test_calls_with_equal_numbers_of_other_types_have_verdicts_of_their_own():
    def function(x):
        return x + 1, torch.view_as_real(x + (1 + 0j))

    report = analyze(function, (X,))
    assert report["supported_operators"] == {"aten::add": 1}
    kinds = [row["kind"] for row in report["unsupported_operators"]]
    assert kinds == ["aten::add", "aten::view_as_real"]


def test_what_has_no_lowering_fails_there_and_may_be_ignored():
    def function(x):
        return torch.linalg.det(x[:, :3]) + 1

    report = analyze(function, (X,))
    (failed,) = report["unsupported_operators"]
    assert failed["failureAt"] == LOWERING
    ignoring = analyze(function, (X,), additional_ignored_ops={failed["kind"]})
    assert ignoring["unsupported_operators"] == []
    assert "aten::add" in ignoring["supported_operators"]

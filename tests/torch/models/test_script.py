import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.models.script import script_graph

HEAD = "import torch\nmodel = torch.nn.Linear(3, 2)\n"


def written(tmp_path, text):
    path = tmp_path / "net.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "line",
    [
        "args = (torch.zeros(4, 3),)",
        "example_inputs = [torch.zeros(4, 3)]",
        "args = torch.zeros(4, 3)",
    ],
)
def test_a_file_names_a_model_and_its_arguments(tmp_path, line):
    made = script_graph(written(tmp_path, HEAD + line))
    assert [value.shape for value in made.graph.outputs] == [(4, 2)]


def test_a_file_runs_as_a_module_would(tmp_path):
    text = HEAD + "args = (torch.zeros(1, 3),)\nif __name__ == '__main__':\n    raise SystemExit\n"
    assert script_graph(written(tmp_path, text)).graph.nodes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"net.py defines no model; legal: a torch.nn.Module"),
        ("model = 1\n", r"net.py defines model as int; legal: a torch.nn.Module"),
        (HEAD, r"net.py defines no args; legal: a tuple of tensors, named args or example_inputs"),
        (HEAD + "args = 1\n", r"net.py defines args as int; legal: a tuple of tensors"),
    ],
)
def test_a_file_without_either_is_refused(tmp_path, text, message):
    with pytest.raises(BadInput, match=message) as error:
        script_graph(written(tmp_path, text))
    assert error.value.fix == (
        "define model, a torch.nn.Module, and args, the tuple that it is called with"
    )


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read .*net.py: No such file"):
        script_graph(tmp_path / "net.py")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return x * 2 if x.sum() > 0 else x", "reads the value of a tensor"),
        ("return x * 2 if x.argmax() else x", "reads the value of a tensor"),
        ("return x @ x", "raises "),
    ],
)
def test_a_model_that_cannot_be_traced_is_refused_at_its_line(tmp_path, body, reason):
    text = f"""import torch
class Net(torch.nn.Module):
    def forward(self, x):
        {body}
model, args = Net(), (torch.ones(3, 4),)
"""
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=reason) as refusal:
        script_graph(path)
    assert refusal.value.line == (str(path), 4)

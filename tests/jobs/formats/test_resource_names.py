import pytest

from trnsim.jobs.formats import read_specs
from trnsim.jobs.formats.resource_names import misspelled_resources
from trnsim.jobs.rules import findings
from trnsim.reader import load_documents

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: a
    image: i
    resources:
      limits:
        NAME: 1
"""


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aws.amazon.com/neurons", "aws.amazon.com/neuron"),
        ("aws.amazon.com/Neuron", "aws.amazon.com/neuron"),
        ("amazonaws.com/neuroncore", "aws.amazon.com/neuroncore"),
        ("neuron", "aws.amazon.com/neuron"),
        ("vpc.amazonaws.com/efas", "vpc.amazonaws.com/efa"),
        ("efa", "vpc.amazonaws.com/efa"),
        ("hugepages-2M", "hugepages-2Mi"),
        ("cpus", "cpu"),
    ],
)
def test_a_misspelled_resource_is_found_at_its_line(tmp_path, name, near):
    path = tmp_path / "a.yaml"
    path.write_text(POD.replace("NAME", name))
    (spec,) = read_specs(path)
    (row,) = [row for row in findings(spec) if row.rule == "misspelled-resource"]
    assert (row.place.line, row.severity) == (10, "error")
    assert row.reason == f"{name} is no resource that nodes offer; {near} is"
    assert row.fix == f"rename it to {near}"


@pytest.mark.parametrize(
    "name",
    [
        "aws.amazon.com/neuron",
        "nvidia.com/gpu",
        "cpu",
        "amd.com/gpus",
        "example.com/dongle",
        '"${R}"',
    ],
)
def test_another_resource_is_the_users_own(tmp_path, name):
    path = tmp_path / "a.yaml"
    path.write_text(POD.replace("NAME", name))
    assert list(misspelled_resources(load_documents(path)[0].root)) == []

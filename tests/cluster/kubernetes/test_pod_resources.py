"""What containers hold: answers of a kubelet, and none. grpc has threads: in its own process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kubelet's socket is on Linux")

ANSWERED = """
import sys
sys.path.append(sys.argv[1])
from fake_kubelet import Kubelet
from pathlib import Path
from trnsim.cluster.kubernetes.pod_resources import holdings
from trnsim.errors import BadInput

folder = Path(sys.argv[2])
(folder / "plugins").mkdir()
kubelet = Kubelet(folder / "plugins", folder / "pods.sock")
kubelet.start()
kubelet.hold([
    ["n", "p", "c", "aws.amazon.com/neuron", ["3", "0"]],
    ["n", "q", "c", "vpc.amazonaws.com/efa", ["1"]],
    ["n", "r", "c", "aws.amazon.com/neuroncore", []],
])
for each in holdings(folder / "pods.sock"):
    print(each.namespace, each.pod, each.container, each.resource, *each.ids)
kubelet.stop()
for path in (folder / "pods.sock", folder / "none.sock"):
    try:
        print(holdings(path, timeout_s=0.3))
    except BadInput as error:
        print(error.reason.partition(": ")[0])
"""


def test_kubelet_says_what_containers_hold(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", ANSWERED, str(__file__).rpartition("/")[0], tmp_path],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert told.splitlines() == [
        "n p c aws.amazon.com/neuron 3 0",
        "n r c aws.amazon.com/neuroncore",
        "kubelet does not say what containers hold",
        "kubelet does not say what containers hold",
    ]

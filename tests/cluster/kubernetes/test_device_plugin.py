"""The device plugin as a process, beside a kubelet that reads its messages by field numbers."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from trnsim.cluster.kubernetes.device_plugin import PluginSettings, _ResourceServer
from trnsim.cluster.kubernetes.node_devices import NodeDevices
from trnsim.cluster.kubernetes.reservations import Reservation
from trnsim.instance.model import instance_model
from trnsim.instance.state import hardware

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kubelet's folder is on Linux")

NEURON, NEURONCORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
FAKE = Path(__file__).parent / "fake_kubelet.py"
END_S = 10


class Node:
    """A folder of device plugins, a kubelet in front of it, and plugins."""

    def __init__(self, folder):
        self.plugins, self.pod_resources = folder / "plugins", folder / "pods.sock"
        self.state, self.processes = folder / "state", []
        self.plugins.mkdir()
        self.state.mkdir(mode=0o700)
        self.kubelet = self.begin([sys.executable, FAKE, self.plugins, self.pod_resources])

    def begin(self, command, **settings):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **settings
        )
        self.processes.append(process)
        return process

    def ask(self, *words):
        self.kubelet.stdin.write(json.dumps(words) + "\n")
        self.kubelet.stdin.flush()
        return json.loads(self.kubelet.stdout.readline())

    def plugin(self, *words):
        return self.begin(
            [
                *(sys.executable, "-P", "-m", "trnsim", "k8s", "device-plugin"),
                *("--on", "trn1.32xlarge", "--plugins", self.plugins, "--no-device-files"),
                *("--pod-resources", self.pod_resources, *words),
            ],
            env={**os.environ, "TRNSIM_STATE": str(self.state)},
            stderr=subprocess.PIPE,
        )

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()


@contextmanager
def node(folder):
    started = Node(folder)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A node whose plugin began before its kubelet."""
    with node(tmp_path_factory.mktemp("node")) as started:
        started.process = started.plugin()
        assert started.process.stderr.readline().startswith("trnsim: waiting for kubelet at ")
        assert started.ask("start") == ["kubelet.sock"]
        started.registered = started.ask("wait", [NEURON, NEURONCORE])
        yield started


def test_each_resource_registers_with_its_socket(running):
    assert running.registered == {
        f"aws.amazon.com/{name}": {
            "version": "v1beta1", "endpoint": f"trnsim-{name}.sock", "options": {"2": [1]},
        }
        for name in ("neuron", "neuroncore")
    }  # fmt: skip
    assert running.ask("options", NEURON) == {"2": [1]}


def test_a_socket_is_for_its_owner_alone(running):
    for name in ("neuron", "neuroncore"):
        status = (running.plugins / f"trnsim-{name}.sock").stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600


def test_preferred_devices_are_a_legal_set(running):
    free = [str(number) for number in range(1, 16)]
    assert running.ask("preferred", NEURON, free, [], 4) == ["4", "5", "6", "7"]
    assert running.ask("preferred", NEURONCORE, ["1", "2", "3"], [], 2) == ["2", "3"]


def test_a_container_gets_variables_and_its_own_state(running):
    old = running.state / "containers" / "neuron-4"
    old.mkdir(parents=True, exist_ok=True)
    (old / "12-99.json").write_text("of a container that has ended")
    given = running.ask("allocate", NEURON, ["5", "4"])
    assert given["envs"] == {
        "NEURON_RT_VISIBLE_CORES": "8-11",
        "TRNSIM_INSTANCE": "trn1.32xlarge",
        "TRNSIM_STATE": "/run/trnsim/state",
    }
    assert given["devices"] == []
    assert given["mounts"] == [
        ["/run/trnsim/state", str(old), False],
        ["/run/trnsim/state/faults", str(running.state / "faults"), True],
        ["/run/trnsim/state/listening", str(running.state / "listening"), True],
    ]
    assert sorted(path.name for path in old.iterdir()) == ["faults", "listening"]
    assert stat.S_IMODE(old.stat().st_mode) == 0o700


def test_hardware_that_a_pod_holds_as_another_resource_is_refused(running):
    running.ask("hold", [["team", "train-0", "main", NEURONCORE, ["16", "17"]]])
    assert running.ask("allocate", NEURON, ["8"]) == (
        "FAILED_PRECONDITION: aws.amazon.com/neuron 8 is hardware that team/train-0 holds as "
        "aws.amazon.com/neuroncore 16, 17; fix: request the same resource in all pods of a node, "
        "or run `trnsim k8s scheduler-extension`, which counts them together"
    )
    assert "8" not in running.ask("preferred", NEURON, ["8", "9", "10", "11"], [], 1)
    running.ask("hold", [])
    assert running.ask("allocate", NEURON, ["8"])["envs"]["NEURON_RT_VISIBLE_CORES"] == "16-17"


def test_an_id_that_no_device_has_is_refused(running):
    assert running.ask("allocate", NEURON, ["16"]) == (
        "FAILED_PRECONDITION: aws.amazon.com/neuron has no '16' on trn1.32xlarge; legal: 0 to 15"
    )


@pytest.mark.slow
def test_a_fault_makes_its_device_unhealthy_within_seconds_and_its_end_healthy(running):
    fault = hardware.StoredFault("hbm-ecc", 3, 1, time.time(), None)
    hardware.inject(running.state, fault)
    took_s, _ = running.ask("wait_health", NEURON, ["3"])
    _, cores = running.ask("wait_health", NEURONCORE, ["7"])
    assert took_s < 5
    assert cores["6"] == "Healthy"
    hardware.clear(running.state)
    assert running.ask("wait_health", NEURON, [])[0] < 5


@pytest.mark.parametrize(
    ("available", "needed", "expected"),
    [
        (range(4, 16), [], ["8", "9", "10", "11"]),
        (range(4, 16), ["9"], ["8", "9", "10", "11"]),
        (range(4, 16), ["4"], ["4", "5", "6", "7"]),
        ([4, 5, 6, 7, 9, 10, 11], [], ["4", "5", "6", "7"]),
    ],
    ids=["free", "with one of it", "with another", "taken"],
)
def test_the_set_that_an_extension_chose_is_preferred(available, needed, expected, tmp_path):
    reserved = Reservation("", "default", "a", "main", tuple(range(16, 24)), is_of_cores=False)
    server = _ResourceServer.__new__(_ResourceServer)  # without its socket
    server.resource = NEURON
    server._settings = PluginSettings(
        NodeDevices(instance_model("trn1.32xlarge")),
        (NEURON,), tmp_path, tmp_path, False, list, lambda _: [reserved], print,
    )  # fmt: skip
    request = SimpleNamespace(
        available_deviceIDs=[str(number) for number in available],
        must_include_deviceIDs=needed,
        allocation_size=4,
    )
    assert server._preferred_ids(request, [], [reserved]) == expected


@pytest.mark.slow
def test_a_second_plugin_is_refused(running):
    _, said = running.plugin().communicate(timeout=END_S)
    assert f"another device plugin of trnsim serves {running.plugins}" in said


@pytest.mark.slow
def test_it_registers_again_with_a_kubelet_that_starts(running):
    """All sockets are gone with a kubelet that starts."""
    running.ask("stop")
    assert running.ask("start") == ["kubelet.sock"]
    assert running.ask("wait", [NEURON, NEURONCORE]).keys() == {NEURON, NEURONCORE}
    assert running.process.poll() is None


@pytest.mark.slow
def test_it_registers_again_after_it_was_killed(running):
    """The last test of this node."""
    running.process.kill()
    running.process.wait()
    assert (running.plugins / "trnsim-neuron.sock").exists()
    again = running.plugin("--resource", "neuron,aws.amazon.com/neurondevice")
    assert "waiting" not in again.stderr.readline()
    names = running.ask("wait", [NEURON, "aws.amazon.com/neurondevice"])
    assert names["aws.amazon.com/neurondevice"]["endpoint"] == "trnsim-neurondevice.sock"
    again.send_signal(signal.SIGTERM)
    assert again.wait(END_S) == 0
    assert not list(running.plugins.glob("trnsim-neuron.sock"))


@pytest.mark.slow
def test_a_kubelet_that_refuses_ends_it(tmp_path):
    with node(tmp_path) as started:
        started.ask("start", "unsupported version")
        plugin = started.plugin()
        _, said = plugin.communicate(timeout=END_S)
        assert plugin.returncode == 2
        assert "kubelet refuses aws.amazon.com/neuron: unsupported version" in said


@pytest.mark.slow
def test_a_machine_without_device_files_is_refused(tmp_path):
    with node(tmp_path) as started:
        plugin = started.plugin("--device-files")
        _, said = plugin.communicate(timeout=END_S)
        assert plugin.returncode == 2
        assert "there is no device /dev/neuron0 for containers" in said
        assert "trnsim shell" in said


@pytest.mark.slow
def test_without_pod_resources_two_resources_are_refused_and_one_is_given(tmp_path):
    with node(tmp_path) as started:
        started.ask("start")
        plugin = started.plugin("--pod-resources", str(tmp_path / "no.sock"))
        started.ask("wait", [NEURON])
        assert "kubelet does not say what containers hold" in started.ask("allocate", NEURON, ["0"])
        plugin.terminate()
        plugin.wait(END_S)
        started.ask("stop")
        started.ask("start")
        started.plugin("--resource", "neuron", "--pod-resources", str(tmp_path / "no.sock"))
        started.ask("wait", [NEURON])
        assert started.ask("allocate", NEURON, ["0"])["envs"]["NEURON_RT_VISIBLE_CORES"] == "0-1"

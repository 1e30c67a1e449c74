import os
import stat
import sys
from pathlib import Path

import pytest
from instance_shells import SMALL, in_namespace, needs_namespace, needs_root

from trnsim.instance.model import instance_model
from trnsim.instance.shell import contacts, linux_calls, sysfs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux"),
    needs_namespace,
    needs_root,
]


def made(check):
    """Run `check` in a namespace with the contact points of a small instance."""

    def run():
        assert contacts.make(instance_model(SMALL)) == {}
        check()

    assert in_namespace(run) == 0


def test_modes_are_the_drivers():
    def check():
        device = f"{sysfs.ROOT}/neuron0"
        for name, mode in (
            ("core_count", 0o444),
            ("reset", 0o600),
            ("neuron_core0/stats/status/success/total", 0o644),
        ):
            assert stat.S_IMODE(os.stat(f"{device}/{name}").st_mode) == mode
        node = os.stat("/dev/neuron0")
        assert stat.S_ISCHR(node.st_mode)
        assert stat.S_IMODE(node.st_mode) == 0o666
        assert os.major(node.st_rdev) == 0

    made(check)


def test_a_cautious_umask_hides_nothing():
    before = os.umask(0o077)
    try:

        def check():
            assert stat.S_IMODE(os.stat("/opt/aws/neuron/bin").st_mode) == 0o755
            assert os.umask(0o077) == 0o077

        made(check)
    finally:
        os.umask(before)


@pytest.mark.parametrize(("lnc", "text"), [(1, "NEURON_LOGICAL_NC_CONFIG=1\n"), (2, None)])
def test_an_lnc_that_is_not_the_chips_own_stands_beside_the_tools(lnc, text):
    """aws-neuron-sdk deploy/eks/prerequisites.rst: /opt/aws/neuron/logical_nc_config."""

    def run():
        assert contacts.make(instance_model("trn2.3xlarge", lnc)) == {}
        file = Path("/opt/aws/neuron/logical_nc_config")
        assert (file.read_text() if file.exists() else None) == text
        assert Path("/opt/aws/neuron/bin/neuron-ls").exists()

    assert in_namespace(run) == 0


def test_the_product_is_found_under_both_of_its_names():
    def check():
        for top in ("/sys/devices/virtual/dmi/id", "/sys/class/dmi/id"):
            assert Path(top, "product_name").read_text() == f"{SMALL}\n"
            assert Path(top, "sys_vendor").read_text() == "Amazon EC2\n"

    made(check)


def test_the_drivers_line_stands_first_and_once():
    before = Path("/proc/devices").read_text()

    def check():
        text = Path("/proc/devices").read_text()
        assert text.startswith("Character devices:\n  0 neuron\n")
        assert text.replace("  0 neuron\n", "") == before

    made(check)


def test_a_machine_with_devices_of_its_own_shows_the_emulated_ones_alone():
    def check():
        # The second instance is made over the first, which has a device more.
        os.mknod("/dev/neuron7", stat.S_IFCHR | 0o666, 0)
        assert contacts.make(instance_model("trn1.32xlarge")) == {}
        assert sorted(Path("/dev").glob("neuron*")) == sorted(
            Path(f"/dev/neuron{number}") for number in range(16)
        )
        assert len(os.listdir(sysfs.ROOT)) == 16
        assert Path("/proc/devices").read_text().count(" neuron\n") == 1
        assert sorted(os.listdir("/opt/aws/neuron/bin")) == sorted(contacts.tools.TOOLS)

    made(check)


def test_what_cannot_be_made_is_named_and_the_others_are_there(monkeypatch):
    mount = linux_calls.mount

    def refused(source, target, *rest, **named):
        if target in ("/proc/devices", "/sys/class"):
            raise PermissionError(13, "Permission denied", target)
        mount(source, target, *rest, **named)

    monkeypatch.setattr(contacts.linux_calls, "mount", refused)

    def check():
        missing = contacts.make(instance_model(SMALL))
        denied = "Permission denied"
        assert missing["/proc/devices"] == missing["/sys/class/neuron_device"] == denied
        assert "/dev/neuron*" not in missing
        assert Path("/dev/neuron0").exists()
        assert Path("/dev/null").exists()
        assert Path("/opt/aws/neuron/bin/neuron-ls").exists()

    assert in_namespace(check) == 0


def test_where_devices_cannot_be_made_they_are_files(monkeypatch):
    """Before Linux 5.8 nobody but root makes the device 0:0."""

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(contacts.os, "mknod", refused)

    def check():
        assert stat.S_ISREG(os.stat("/dev/neuron0").st_mode)

    made(check)

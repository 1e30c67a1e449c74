"""The files by which Neuron's clients find devices, made in this mount namespace one by one.

A file that cannot be made is left unchanged, and named.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from trnsim.instance.model import InstanceModel
from trnsim.instance.shell import linux_calls, sysfs, tools
from trnsim.instance.shell.cover import Cover

_DEVICE_MAJOR: Final = 0
"""Neuron's device number here: no driver has it, so that opening the device fails."""
_DEVICES_FILE: Final = "/proc/devices"
_CHARACTER_HEADING: Final = "Character devices:\n"
_VIRTUAL_FOLDER: Final = "/sys/devices/virtual"
_LNC_FILE: Final = "logical_nc_config"
"""Source: aws-neuron-sdk deploy/eks/prerequisites.rst, which writes LNC 1 into it."""
_DMI_FILES: Final = {"product_name": "", "sys_vendor": "Amazon EC2"}


def make(model: InstanceModel) -> dict[str, str]:
    """Make every contact point of `model`; files that the kernel refuses, with the reason."""
    cover = Cover()
    missing_reasons: dict[str, str] = {}
    umask = os.umask(0)
    try:
        for name, add in CONTACTS.items():
            try:
                add(cover, model)
            except OSError as error:
                missing_reasons[name] = error.strerror or str(error)
    finally:
        os.umask(umask)
    return missing_reasons


def _add_devices(cover: Cover, model: InstanceModel) -> None:
    """/dev/neuron*, and terminals of the namespace's own."""
    terminal = _terminal()
    dev_descriptor = os.open("/dev", os.O_RDONLY | os.O_DIRECTORY)
    try:
        machine_names = [
            name for name in os.listdir(dev_descriptor) if re.fullmatch(r"neuron\d+", name)
        ]
        folder = cover.writable_folder("/dev", without=[*machine_names, "ptmx", "pts"])
        # A bound ptmx finds no pts beside it (ENOENT): terminals get a file system of their own.
        os.mkdir(f"{folder}/pts")
        linux_calls.mount(
            "devpts", f"{folder}/pts", "devpts", data="newinstance,ptmxmode=0666,mode=620"
        )
        os.symlink("pts/ptmx", f"{folder}/ptmx")
        if terminal:
            _show_terminal(cover, dev_descriptor, terminal)
    finally:
        os.close(dev_descriptor)
    for device in model.devices:
        _add_device(cover, f"{folder}/neuron{device.index}")


def _add_device(cover: Cover, path: str) -> None:
    try:
        # The device 0:0 is the one that Linux lets every user make.
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(_DEVICE_MAJOR, 0))
    except PermissionError:
        folder, _, name = path.rpartition("/")
        cover.write(folder, {name: ""}, 0o666)


def _terminal() -> str:
    """The path below /dev/pts of the terminal that this process runs in, or ""."""
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            name = os.ttyname(descriptor)
            return name.removeprefix("/dev/") if name.startswith("/dev/pts/") else ""
    return ""


def _show_terminal(cover: Cover, dev_descriptor: int, terminal: str) -> None:
    """Bind the terminal, which is not among the new ones, where ttyname(3) still finds it."""
    console = "/dev/console"
    if not os.path.lexists(console):
        cover.write("/dev", {"console": ""}, 0o600)
    linux_calls.mount(
        f"/proc/self/fd/{dev_descriptor}/{terminal}", console, flags=linux_calls.MS_BIND
    )


def _add_driver(cover: Cover, model: InstanceModel) -> None:
    """The driver's line in /proc/devices."""
    del model
    text = Path(_DEVICES_FILE).read_text(encoding="utf-8")
    other_devices = re.sub(r"(?m)^ *\d+ neuron\n", "", text)
    head, separator, tail = other_devices.partition(_CHARACTER_HEADING)
    cover.put_over(
        _DEVICES_FILE, f"{head}{separator or _CHARACTER_HEADING}{_DEVICE_MAJOR:3d} neuron\n{tail}"
    )


def _add_sysfs(cover: Cover, model: InstanceModel) -> None:
    """/sys/devices/virtual/neuron_device."""
    cover.writable_folder(_VIRTUAL_FOLDER, without=["neuron_device"])
    folder = cover.writable_folder(_VIRTUAL_FOLDER, "neuron_device")
    for device in model.devices:
        cover.write(folder, sysfs.device_files(model, device))
        top = f"{folder}/neuron{device.index}"
        os.symlink("../../../../class/neuron_device", f"{top}/subsystem")
        for name, mode in sysfs.MODES.items():
            os.chmod(f"{top}/{name}", mode)


def _add_class(cover: Cover, model: InstanceModel) -> None:
    """/sys/class/neuron_device."""
    cover.writable_folder("/sys/class", without=["neuron_device"])
    folder = cover.writable_folder("/sys/class", "neuron_device")
    for device in model.devices:
        name = f"neuron{device.index}"
        os.symlink(f"../../devices/virtual/neuron_device/{name}", f"{folder}/{name}")


def _add_product(cover: Cover, model: InstanceModel) -> None:
    """DMI's product and vendor of the machine."""
    folder = cover.writable_folder(_VIRTUAL_FOLDER, "dmi/id", without=_DMI_FILES)
    cover.write(
        folder, {name: f"{text or model.name}\n" for name, text in _DMI_FILES.items()}, 0o444
    )
    if not os.path.lexists("/sys/class/dmi"):
        classes = cover.writable_folder("/sys/class", "dmi")
        os.symlink("../../devices/virtual/dmi/id", f"{classes}/id")


def _add_tools(cover: Cover, model: InstanceModel) -> None:
    """/opt/aws/neuron/bin, and the instance's own LNC beside it where it is not the chip's."""
    top, _, inner_path = tools.FOLDER[1:].partition("/")
    parent = cover.writable_folder(f"/{top}", inner_path.rpartition("/")[0], without=[_LNC_FILE])
    if model.has_pairs and model.lnc == 1:
        cover.write(parent, {_LNC_FILE: f"NEURON_LOGICAL_NC_CONFIG={model.lnc}\n"})
    folder = cover.writable_folder(f"/{top}", inner_path, without=tools.TOOLS)
    cover.write(folder, tools.scripts(), 0o755)


CONTACTS: Final[dict[str, Callable[[Cover, InstanceModel], None]]] = {
    "/dev/neuron*": _add_devices,
    _DEVICES_FILE: _add_driver,
    sysfs.ROOT: _add_sysfs,
    "/sys/class/neuron_device": _add_class,
    f"{_VIRTUAL_FOLDER}/dmi/id/product_name": _add_product,
    tools.FOLDER: _add_tools,
}
"""Functions that make each contact point."""

"""The state in folders that cannot be used, made as they are met: mounts, links, other users.

A program goes on and says why in one line; a tool says it in one error.
"""

import contextlib
import io
import multiprocessing
import os
import shutil
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from users import NOBODY, become_nobody, in_child, needs_root, own_mounts, refuses_mounts

import trnsim.nki.language as nl
from trnsim import nki
from trnsim.cli import app
from trnsim.device import watch
from trnsim.errors import BadInput, EmulatorError
from trnsim.instance.shell import linux_calls
from trnsim.instance.state import hardware
from trnsim.tools.monitor.user_monitor import user_reports

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
needs_mounts = pytest.mark.skipif(
    bool(refuses_mounts()), reason=f"no private mounts here: {refuses_mounts()}"
)


def command(*words):
    return lambda: CliRunner().invoke(app, words, catch_exceptions=False)


TOOLS = {
    "neuron-ls": command("neuron-ls"),
    "fault": command("fault", "hbm-ecc", "--device", "0"),
    "clear": command("fault", "clear"),
    "neuron-monitor": lambda: next(user_reports()),
}
MS_RDONLY, MS_REMOUNT = 1, 32  # linux/mount.h


@nki.jit
def doubled(a):
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(result, nl.multiply(nl.load(a), 2.0))
    return result


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory):
    """All modules that a child needs, which as another user may not read them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRNSIM_STATE", str(tmp_path_factory.mktemp("kept") / "state"))
        doubled(np.ones((2, 2), np.float32))
        for use in TOOLS.values():
            use()
        watch.end()


@pytest.fixture
def place():
    """A folder on the way to which every user may go."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def run_all(path):
    """What a program computes and says, and what each tool refuses, with the state at `path`."""

    def names_the_state():
        os.environ["TRNSIM_STATE"] = str(path)
        os.environ["TRNSIM_INSTANCE"] = "trn2.3xlarge"

    names_the_state()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        total = float(doubled(np.ones((2, 2), np.float32)).sum())
        watch.end()
    names_the_state()  # a program without a state has it off
    refused = {}
    for name, use in TOOLS.items():
        try:
            use()
        except EmulatorError as error:
            refused[name] = error.reason
    return total, said.getvalue(), refused


def read_only_bind(path):
    path.mkdir(mode=0o700)
    own_mounts()
    linux_calls.mount(str(path), str(path), flags=linux_calls.MS_BIND)
    linux_calls.mount("", str(path), flags=linux_calls.MS_BIND | MS_REMOUNT | MS_RDONLY)
    return path


def below_a_read_only_bind(path):
    return read_only_bind(path) / "state"


def small_tmpfs(path, data):
    path.mkdir(mode=0o700)
    own_mounts()
    linux_calls.mount("none", str(path), "tmpfs", data=f"mode=700,{data}")
    return path


def full_tmpfs(path):
    small_tmpfs(path, "size=16k")
    (path / "listening").touch()
    with contextlib.suppress(OSError), (path / "fill").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    return path


def without_inodes(path):
    return small_tmpfs(path, "nr_inodes=1")


def of_root(path):
    path.mkdir(mode=0o700)
    become_nobody()
    return path


def of_nobody(path):
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)
    return path


def of_nobody_read_only(path):
    path.mkdir(mode=0o500)
    os.chown(path, NOBODY, NOBODY)
    become_nobody()
    return path


def hidden_from_nobody(path):
    path.mkdir(mode=0o700)
    become_nobody()
    return path / "below"


def link(path):
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to("elsewhere")
    return path


def loop(path):
    path.symlink_to(path.name)
    return path / "below"


def file(path):
    path.touch(mode=0o600)
    return path


def below_a_file(path):
    return file(path) / "below"


def too_long(path):
    return path / ("x" * 300)


def device(_):
    return Path(os.devnull)


def no_working_directory(path):
    path.mkdir()
    os.chdir(path)
    path.rmdir()
    return Path("relative")


CANNOT_USE = [
    (link, "is a link"),
    (loop, "Too many levels of symbolic links"),
    (file, "it is a file"),
    (below_a_file, "Not a directory"),
    (too_long, "File name too long"),
    (device, "it is a file"),
    (no_working_directory, "cannot use the state folder relative: No such file or directory"),
    pytest.param(of_root, "belongs to another user", marks=needs_root),
    pytest.param(of_nobody, "belongs to another user", marks=needs_root),
    pytest.param(of_nobody_read_only, "Permission denied", marks=needs_root),
    pytest.param(hidden_from_nobody, "Permission denied", marks=needs_root),
    pytest.param(read_only_bind, "Read-only file system", marks=needs_mounts),
    pytest.param(below_a_read_only_bind, "Read-only file system", marks=needs_mounts),
]


@pytest.mark.parametrize(("make", "reason"), CANNOT_USE)
def test_a_program_goes_on_and_each_tool_says_why_in_one_line(place, make, reason):
    total, said, refused = in_child(lambda: run_all(make(place / "state")))
    assert total == 8
    assert said.startswith("trnsim: the state of this process is not kept: ")
    assert said.count("\n") == 1
    assert reason in said
    assert refused.keys() == TOOLS.keys()
    for line in refused.values():
        assert reason in line
        assert "\n" not in line


@needs_mounts
@pytest.mark.parametrize(
    ("make", "refusing"),
    [(full_tmpfs, ["fault"]), (without_inodes, ["neuron-ls", "fault", "neuron-monitor"])],
)
def test_a_full_disk_stops_no_program_and_no_fault_is_half_injected(place, make, refusing):
    def run():
        path = make(place / "state")
        return *run_all(path), len(hardware.injected_faults(path))

    total, said, refused, injected = in_child(run)
    assert total == 8
    assert said.count("\n") == 1
    assert list(refused) == refusing
    for line in (said, *refused.values()):
        assert "No space left on device" in line
    assert injected == 0


@needs_mounts
def test_a_log_without_room_injects_nothing(place):
    def run():
        path = small_tmpfs(place / "state", "size=16k")
        (path / "fill").write_bytes(bytes(3 * 4096))  # the fault takes the last page
        try:
            hardware.inject(path, hardware.StoredFault("hang", 0, None, 0.0, None))
        except BadInput as error:
            return error.reason, len(hardware.injected_faults(path))
        return "", -1

    reason, injected = in_child(run)
    assert reason.endswith(f"{hardware.LOG}: No space left on device")
    assert injected == 0


def used_by(become, home, both, told):
    """Run a program as a user, then tell its number and what each tool shows that user."""
    become()
    for name in ("TRNSIM_STATE", "XDG_STATE_HOME"):
        os.environ.pop(name, None)
    os.environ |= {"HOME": str(home), "TRNSIM_INSTANCE": "trn2.3xlarge"}
    doubled(np.ones((2, 2), np.float32))
    both.wait(30)
    text = CliRunner().invoke(app, ["neuron-ls", "--show-all-procs"], catch_exceptions=False).stdout
    listed = [line.split("|")[5] for line in text.splitlines() if line.startswith("| 0 ")]
    shown = [one["pid"] for one in next(user_reports())["neuron_runtime_data"]]
    told.put((become.__name__, os.getpid(), [int(pid) for pid in listed], shown))
    both.wait(30)


def stay_root():
    pass


@needs_root
def test_two_users_with_their_default_folders_do_not_see_each_other(place):
    context = multiprocessing.get_context("fork")
    both, told = context.Barrier(2), context.Queue()
    users = []
    for become, user in ((stay_root, 0), (become_nobody, NOBODY)):
        home = place / become.__name__
        home.mkdir()
        os.chown(home, user, user)
        users.append(context.Process(target=used_by, args=(become, home, both, told)))
    for one in users:
        one.start()
    found = [told.get(timeout=60) for _ in users]
    for one in users:
        one.join()
    assert {name for name, *_ in found} == {"stay_root", "become_nobody"}
    for _, pid, listed, shown in found:
        assert listed == shown == [pid]
    for name in ("stay_root", "become_nobody"):
        path = place / name / ".local" / "state" / "trnsim"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert not list(path.glob("*.json"))

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from instance_shells import (
    COMMAND,
    NOBODY,
    NOBODYS,
    SMALL,
    needs_namespace,
    needs_root,
    nobodys_python,
    outside,
    python,
    running,
    shell,
)

from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.shell import contacts, namespace, session

pty = pytest.importorskip("pty", reason="terminals of POSIX")

LOOKS = """
import ctypes, errno, fcntl, glob, json, multiprocessing, os, re, subprocess, sys

def failure(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""

def read(path):
    with open(path) as stream:
        return stream.read()

first, second = os.openpty()
bash = subprocess.run(["bash", "-c", "(exit 3); echo $?"], capture_output=True, text=True)
with multiprocessing.get_context("fork").Pool(2) as pool:
    pooled = pool.map(abs, [-1, 2])
print(json.dumps({
    "devices": sorted(glob.glob("/dev/neuron*")),
    "opened": failure(lambda: os.open("/dev/neuron0", os.O_RDWR)),
    "driver": re.findall(r"(?m)^ *(\\d+) +neuron$", read("/proc/devices")),
    "product": read("/sys/devices/virtual/dmi/id/product_name"),
    "class": os.listdir("/sys/class/neuron_device"),
    "linked": os.path.realpath("/sys/class/neuron_device/neuron0/subsystem"),
    "cores": read("/sys/class/neuron_device/neuron0/core_count"),
    "tools": sorted(os.listdir("/opt/aws/neuron/bin")),
    "path": os.environ["PATH"].split(":")[0],
    "instance": os.environ["TRNSIM_INSTANCE"],
    "lnc": os.environ.get("NEURON_LOGICAL_NC_CONFIG"),
    "terminal": os.ttyname(second),
    "ids": [os.getuid(), os.getgid()],
    "pid": os.getpid(),
    "pooled": pooled,
    "bash": bash.stdout,
    "null": open("/dev/null", "w").write("x"),
    "others": [os.path.exists(path) for path in ("/dev/urandom", "/dev/shm", "/dev/fd/0")],
    "cwd": os.getcwd(),
    "ignored": os.popen("grep SigIgn /proc/self/status").read().split()[-1],
}))
"""


def check_what_is_seen(seen, count, cores, product):
    assert seen["devices"] == sorted(f"/dev/neuron{number}" for number in range(count))
    assert seen["driver"] == ["0"]
    assert seen["product"] == f"{product}\n"
    assert seen["instance"] == product
    assert sorted(seen["class"]) == sorted(f"neuron{number}" for number in range(count))
    assert seen["linked"] == "/sys/class/neuron_device"
    assert seen["cores"] == f"{cores}\n"
    tools = {"neuron-ls", "neuron-monitor", "neuron-monitor-prometheus.py", "neuron-top"}
    assert {*tools, "nccom-test"} <= set(seen["tools"])
    assert seen["path"] == "/opt/aws/neuron/bin"
    assert seen["terminal"].startswith("/dev/pts/")
    assert seen["pooled"] == [1, 2]
    assert seen["bash"] == "3\n"
    assert seen["null"] == 1
    assert all(seen["others"])


@pytest.fixture(scope="module")
def seen():
    """What a program finds in trn2.48xlarge, run without a terminal in a session of its own."""
    done = python(
        LOOKS,
        options=("--instance", "trn2.48xlarge", "--lnc", "1"),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return json.loads(done.stdout)


@pytest.mark.slow
@needs_namespace
def test_a_program_finds_every_contact_point(seen):
    check_what_is_seen(seen, 16, 8, "trn2.48xlarge")
    assert seen["lnc"] == "1"
    assert seen["cwd"] == os.getcwd()
    assert seen["ids"] == [os.getuid(), os.getgid()]


@needs_namespace
def test_opening_a_device_fails_plainly(seen):
    """No driver has it; in a user namespace, no device of its file system opens."""
    assert seen["opened"] in ("ENXIO", "EACCES")


@needs_namespace
def test_nothing_of_it_is_seen_outside(seen):
    assert seen["devices"]
    mounts, devices, _ = outside()
    assert mounts == []
    assert "  0 neuron\n" not in devices


@needs_namespace
@needs_root
def test_nobody_finds_the_same_as_root_and_leaves_nothing():
    python = nobodys_python()
    starts = [*NOBODY, python, *COMMAND[1:]]
    done = shell(python, "-c", LOOKS, starts=starts, env=NOBODYS, cwd="/")
    assert done.stderr == ""
    found = json.loads(done.stdout)
    check_what_is_seen(found, 1, 2, SMALL)
    assert found["ids"] == [65534, 65534]
    assert found["opened"] == "EACCES"
    assert found["lnc"] is None
    assert gone(f"trnsim.instance.shell.keeper {found['pid']} ")


@needs_namespace
@pytest.mark.parametrize(("program", "status"), [("exit 7", 7), ("kill -9 $$", -9)])
def test_the_exit_status_is_the_programs(program, status):
    assert shell("sh", "-c", program).returncode == status


@pytest.mark.slow
def test_a_program_that_does_not_exist_ends_as_in_a_shell(tmp_path):
    file = tmp_path / "text"
    file.write_text("no program")
    for name, status, reason in (
        ("no-such-program", 127, "No such file or directory"),
        (str(file), 126, "Permission denied"),
    ):
        done = shell(name)
        assert done.returncode == status
        assert done.stderr.splitlines()[-1] == f"trnsim: cannot run {name}: {reason}"


def test_a_program_without_a_name_does_not_exist():
    done = shell("")
    assert done.returncode == 127
    assert done.stderr.splitlines()[-1] == "trnsim: cannot run '': No such file or directory"


@pytest.mark.parametrize("closed", ["1", "2", "0 1 2"])
def test_closed_streams_are_the_program_s_own(closed):
    closing = "".join(f" {number}>&-" for number in closed.split())
    words = shlex.join([*COMMAND, "--instance", SMALL, "--", "sh", "-c", "exit 4"])
    assert subprocess.run(["sh", "-c", f"{words}{closing}"], check=False).returncode == 4


FOLLOWS = """
import time
from trnsim.instance.state import hardware
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.record import ProcessRecord
from trnsim.instance.state.writer import Writer

pid, started = own_identity()
fields = dict(tool="kernel", tag="1", instance="trn1.2xlarge", lnc=1, cores=(1,), updated_at=0.0)
Writer(lambda: ProcessRecord(pid, started, "x", **fields, executions={"completed": 4})).write()
hardware.inject(state_folder(), hardware.StoredFault("hbm-ecc", 0, None, 0.0, 0.0))
top = "/sys/class/neuron_device/neuron0"
path = top + "/neuron_core1/stats/status/success/total"

def awaited(text, path=path):
    for _ in range(1000):
        with open(path) as stream:
            if stream.read() == text:
                return True
        time.sleep(0.01)
    return False

print(awaited("4\\n"), open(path, "w").write("1\\n"), awaited("0\\n"))
print(awaited("1\\n", top + "/stats/hardware/mem_ecc_uncorrected"))
"""


@needs_namespace
def test_counters_follow_what_runs_and_are_cleared_by_writing(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    done = python(FOLLOWS)
    assert done.stderr == ""
    assert done.stdout == "True 2 True\nTrue\n"


WAITS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(9)
"""


def started(*command, **settings):
    return subprocess.Popen(
        [*COMMAND, "--instance", SMALL, "--", *command],
        stdout=subprocess.PIPE,
        text=True,
        **settings,
    )


@pytest.mark.parametrize(
    ("number", "status", "says"), [(signal.SIGTERM, 5, ""), (signal.SIGINT, 9, "interrupted\n")]
)
def test_a_signal_reaches_the_program(number, status, says):
    with started(sys.executable, "-c", WAITS) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == says
    assert process.returncode == status


def on_terminal(command, typed, environment=None):
    """The exit status of a command on a terminal of its own, and what appears there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, os.environ | (environment or {}))  # noqa: S606
    shown = b""
    try:
        for after, keys in typed:
            shown = seen_until(terminal, shown, after)
            os.write(terminal, keys)
        shown = seen_until(terminal, shown, None)
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def seen_until(terminal, shown, text):
    """What a terminal shows up to `text`, or to its end."""
    until_s = time.monotonic() + 60
    start = len(shown)
    while (text is None or text not in shown[start:]) and time.monotonic() < until_s:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            content = os.read(terminal, 4096)
        except OSError:  # how Linux ends a terminal
            break
        if not content:
            break
        shown += content
    return shown


@needs_namespace
def test_ctrl_c_on_a_terminal_reaches_the_program():
    command = [*COMMAND, "--instance", SMALL, "--", sys.executable, "-c", WAITS]
    status, shown = on_terminal(command, [(b"ready", b"\x03")])
    assert status == 9
    assert "interrupted" in shown


@needs_namespace
def test_without_a_command_it_is_a_shell_with_job_control(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    status, shown = on_terminal(
        [*COMMAND, "--instance", SMALL],
        [
            (b"# " if os.getuid() == 0 else b"$ ", b"tty\n"),
            (b"/dev/console", f"{sys.executable} {tmp_path}/waits.py\n".encode()),
            (b"ready", b"\x03"),
            (b"interrupted", b"exit $?\n"),
        ],
        {"SHELL": "/bin/sh", "HOME": "/", "ENV": ""},
    )
    assert status == 9
    assert f"trnsim: {SMALL}, emulated: 1 device, 2 logical cores" in shown
    assert "no job control" not in shown


def gone(*texts):
    """Whether, within ten seconds, no process has one of the texts in its command line."""
    until_s = time.monotonic() + 10
    while any(running(text) for text in texts) and time.monotonic() < until_s:
        time.sleep(0.05)
    return not any(running(text) for text in texts)


@pytest.mark.slow
@needs_namespace
@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_nothing_is_left_of_a_shell_that_ends_or_is_killed(number):
    before = outside()
    mark = f"trnsim-{uuid.uuid4().hex}"
    left = f"trap '' TERM; sh -c 'while :; do sleep 0.1; done # {mark}' & echo ready; read end"
    with started("sh", "-c", left, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        assert running(mark)
        keeper = f"trnsim.instance.shell.keeper {process.pid} "
        if number:
            time.sleep(0.3)
            process.send_signal(number)
        else:
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait() == (-number if number else 0)
        assert gone(mark, keeper)
    assert outside() == before


@pytest.mark.slow
@needs_namespace
def test_a_shell_in_a_shell_is_refused_by_name():
    done = shell(*COMMAND, "--instance", "trn2.48xlarge")
    assert done.returncode == 2
    assert done.stderr == (
        f"trnsim: error: this is inside an emulated {SMALL} already\n  fix: exit it first\n"
    )


def test_what_cannot_be_is_refused_before_the_program_starts(tmp_path):
    done = shell("touch", str(tmp_path / "ran"), options=("--instance", "trn2.48xlrge"))
    assert done.returncode == 2
    assert "perhaps trn2.48xlarge" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists()


REFUSED = """
import sys
from trnsim.instance.shell import namespace, session

def refuse():
    raise namespace.NamespaceRefusal("Operation not permitted")

namespace.enter = refuse
entered = session.enter("trn1.2xlarge", None)
print(entered.notice, flush=True)
found = session.variables(entered, None)
session.become(entered, ["sh", "-c", "echo $TRNSIM_INSTANCE $PATH; exit 6"], found, print)
"""


def test_where_the_kernel_refuses_path_and_variables_are_set_and_a_line_says_what_is_missing():
    done = subprocess.run(
        [sys.executable, "-P", "-c", REFUSED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 6
    notice, variables = done.stdout.splitlines()
    assert notice == (
        "missing here (Operation not permitted): /dev/neuron*, /proc/devices, "
        "/sys/devices/virtual/neuron_device, /sys/class/neuron_device, "
        "/sys/devices/virtual/dmi/id/product_name, /opt/aws/neuron/bin"
    )
    assert variables.startswith(f"{SMALL} {session.PACKAGED}{os.pathsep}")
    assert done.stderr == ""


def test_a_shell_in_a_shell_without_mounts_is_refused_too(monkeypatch):
    monkeypatch.setenv("PATH", f"{session.PACKAGED}{os.pathsep}/bin")
    monkeypatch.setenv("TRNSIM_INSTANCE", SMALL)
    with pytest.raises(BadInput, match=f"inside an emulated {SMALL} already"):
        session.enter("trn2.48xlarge", None)


def test_the_packaged_tools_are_those_of_the_namespace():
    for name in session.tools.TOOLS:
        file = session.PACKAGED / name
        assert os.access(file, os.X_OK)
        command = f"-P -m trnsim {name.removesuffix('.py')} "
        assert command in file.read_text().replace('", "', " ").replace('",', " ")
        windows = session.PACKAGED / f"{name.removesuffix('.py')}.cmd"
        assert f"-P -m trnsim {name.removesuffix('.py')} " in windows.read_text()


def test_on_windows_the_program_is_a_child(monkeypatch):
    model = instance_model(SMALL)
    entered = session.Session(model, dict.fromkeys(contacts.CONTACTS, "win32 has none"))
    monkeypatch.setattr(session.sys, "platform", "win32")
    before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in the background
    said = []
    found = session.variables(entered, None)
    command = [sys.executable, "-c", "raise SystemExit(11)"]
    assert session.become(entered, command, found, said.append) == 11
    assert session.become(entered, ["no-such-program"], found, said.append) == 127
    assert said == ["cannot run no-such-program: there is no such program"]
    assert signal.getsignal(signal.SIGINT) == before
    assert session._shell({"COMSPEC": "cmd"}) == "cmd"


def test_where_there_is_no_linux_the_reason_says_so(monkeypatch):
    monkeypatch.setattr(namespace.sys, "platform", "darwin")
    with pytest.raises(namespace.NamespaceRefusal, match="darwin has none"):
        namespace.enter()


def test_the_notice_names_each_reason_once():
    model = instance_model(SMALL)
    missing = {
        "/opt/aws/neuron/bin": "no /opt",
        "/dev/neuron*": "denied",
        "/proc/devices": "denied",
    }
    notice = session.Session(model, missing).notice
    assert (
        notice == "missing here (no /opt; denied): /opt/aws/neuron/bin, /dev/neuron*, /proc/devices"
    )
    assert session.Session(model, {}).notice == ""
    assert Path(session.PACKAGED).is_dir()

"""Ranks as plain processes: how they end, and that nothing of them is left."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.launch import launcher
from trnsim.launch.job import LaunchJob
from trnsim.launch.launcher import launch

ROOT = Path(__file__).parents[2]


def job_of(folder, code, **options):
    (folder / "logs").mkdir(exist_ok=True)
    command = (sys.executable, "-c", "import os, sys, time\nrank = os.environ['RANK']\n" + code)
    ranks = fabric("trn2.48xlarge", nodes=2, lnc=2, ranks_per_node=2)
    return replace(LaunchJob(command, ranks, "trn2", folder), **options)


def launched(folder, code, **options):
    """How a job ends, what is said of it, and what it shows."""
    said, shown = [], []
    begun_s = time.monotonic()
    ended = launch(job_of(folder, code, **options), said.append, shown.append)
    return ended, "\n".join(said), "".join(shown), time.monotonic() - begun_s


def running(marker):
    """The processes whose command line has this text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append(path.parent.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


def left_running(marker):
    """The processes that still run after a time in which the system ends those it was told to."""
    until_s = time.monotonic() + 10
    while running(marker) and time.monotonic() < until_s:
        time.sleep(0.05)
    return running(marker)


def test_ranks_that_end_well_leave_their_logs(tmp_path):
    ended, said, shown, _ = launched(
        tmp_path, "print('here is', rank); print('x', file=sys.stderr)"
    )
    assert (ended.status, ended.restarts, ended.lost, said) == (0, 0, [], "")
    assert sorted(shown.split()) == sorted(["here", "is", "0", "x"])
    for rank in range(4):
        assert f"here is {rank}\n" in (tmp_path / "logs" / f"rank-{rank}.log").read_text()


class Visited(LaunchJob):
    """A job to whose port other programs connect first."""

    def announce(self, launch):
        for text in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"token": "x"}\n', b"x" * 70_000):
            stranger = socket.create_connection((launch["host"], launch["port"]))
            stranger.sendall(text)
            threading.Timer(2.0, stranger.close).start()


def test_other_programs_that_connect_are_not_listened_to(tmp_path):
    job = job_of(tmp_path, "print(rank)")
    ended = launch(Visited(**vars(job)), print, lambda _: None)
    assert ended.status == 0


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="real-time signals")
def test_a_signal_without_a_name_has_its_number(tmp_path):
    code = f"os.kill(os.getpid(), {signal.SIGRTMIN + 6})"
    ended, said, *_ = launched(tmp_path, code)
    assert ended.status == 128 + signal.SIGRTMIN + 6
    assert f"was ended by signal {signal.SIGRTMIN + 6}" in said


def test_a_character_on_the_border_of_two_reads_is_shown(tmp_path):
    code = "for b in b'\\xe6\\xa8\\xa1': os.write(1, bytes([b])); time.sleep(0.05)\nprint()"
    assert "模" in launched(tmp_path, code)[2]


class OfFirstNode(LaunchJob):
    """A job whose second node's ranks are started by others, who do not."""

    def agents(self):
        return super().agents()[:2]


def test_ranks_of_other_machines_that_do_not_start_are_named_by_their_node(tmp_path):
    job = job_of(tmp_path, "time.sleep(30)")
    values = vars(job) | {"hosts": ("here", "there"), "start_s": 4}  # enough for those of here
    with pytest.raises(BadInput, match="2 ranks have not started in 4 s, of there"):
        launch(OfFirstNode(**values), print, print)


@pytest.mark.slow
def test_ranks_of_several_machines_are_named_with_their_host(tmp_path):
    said = launched(tmp_path, "sys.exit(3 if rank == '2' else 0)", hosts=("here", "there"))[1]
    assert said.startswith("rank 2 (node 1, there, local rank 0) ended with status 3\n")
    started = tmp_path / "started-"
    waits = f"while not all(os.path.exists({str(started)!r} + n) for n in '23'): time.sleep(0.01)"
    code = f"open({str(started)!r} + rank, 'w').close()\n{waits}\n"
    code += "time.sleep(30 if rank in '01' else 0); sys.exit(3)"
    said = launched(tmp_path, code, hosts=("here", "there"))[1]
    assert said.splitlines()[1] == "all ranks of there ended with it: 2, 3"


FOLLOWS = """
if rank == '1':
    from trnsim.device.steps import tell_that_a_peer_is_lost
    tell_that_a_peer_is_lost()
    sys.exit(1)
time.sleep(1 if rank == '2' else 30)
sys.exit(5)
"""


@pytest.mark.slow
def test_a_rank_that_ends_because_of_another_is_not_the_one_that_is_named(tmp_path):
    ended, said, _, took_s = launched(tmp_path, FOLLOWS)
    assert ended.status == 5
    assert said.startswith("rank 2 (node 1, local rank 0) ended with status 5\n")
    assert took_s < 15


HEARD_LATE = """
import pathlib
path = pathlib.Path({path!r})
if rank == '1':
    if not os.fork(): time.sleep(30)  # it holds the output open, so this end is heard later
    path.with_suffix('.new').write_text(str(os.getpid()))
    path.with_suffix('.new').rename(path)
    os.kill(os.getpid(), 9)
while rank == '0':
    try:
        os.kill(int(path.read_text()), 0)
    except FileNotFoundError:
        pass
    except ProcessLookupError:
        sys.exit(5)
    time.sleep(0.01)
time.sleep(30)
"""


def test_the_rank_that_ended_first_is_named_though_another_is_heard_before(tmp_path):
    ended, *_ = launched(tmp_path, HEARD_LATE.format(path=str(tmp_path / "pid")))
    assert ended.lost == ["rank 1 (node 0, local rank 1) was ended by SIGKILL"]


ONE_ENDS = "print('about to'); time.sleep(30 if rank != '3' else 0.3)\n"


@pytest.mark.parametrize(
    ("end", "status", "how"),
    [
        ("os.kill(os.getpid(), 9)", 137, "was ended by SIGKILL"),
        ("sys.exit(7)", 7, "ended with status 7"),
        ("raise ValueError('at fault')", 1, "ended with status 1"),
    ],
)
def test_a_lost_rank_is_named_and_the_others_end_with_it(tmp_path, end, status, how):
    marker = f"marker = {str(tmp_path)!r}\n"
    # A child of a rank that ignores what asks it to end is ended all the same.
    child = "import signal\nif not os.fork(): signal.signal(15, signal.SIG_IGN); time.sleep(30)\n"
    ended, said, _, took_s = launched(tmp_path, marker + child + ONE_ENDS + end)
    assert ended.status == status
    assert said.startswith(f"rank 3 (node 1, local rank 1) {how}\nits last lines, of {tmp_path}")
    assert "\n  | about to" in said
    assert ended.lost == [f"rank 3 (node 1, local rank 1) {how}"]
    if "ValueError" in end:
        assert "\n  | ValueError: at fault" in said
    assert took_s < 15
    assert left_running(str(tmp_path)) == []


@pytest.mark.slow
def test_all_ranks_start_again_as_often_as_allowed(tmp_path):
    code = (
        "print('start', os.environ['TRNSIM_RESTART'], flush=True); time.sleep(0.2)\n"
        "if rank == '1' and os.environ['TRNSIM_RESTART'] < '2': sys.exit(3)"
    )
    ended, said, shown, _ = launched(tmp_path, code, max_restarts=2)
    assert (ended.status, ended.restarts, len(ended.lost)) == (0, 2, 2)
    assert said.count("rank 1 (node 0, local rank 1) ended with status 3") == 2
    assert "all ranks start again: 2 of 2" in said
    assert shown == "start 0\nstart 1\nstart 2\n"
    log = (tmp_path / "logs" / "rank-1.log").read_text()
    assert log == "start 0\n--- started again, 1\nstart 1\n--- started again, 2\nstart 2\n"
    ended, *_ = launched(tmp_path, "sys.exit(4)", max_restarts=1)
    assert (ended.status, ended.restarts) == (4, 1)


def test_a_program_that_cannot_start_is_said(tmp_path):
    job = job_of(tmp_path, "")
    said = []
    ended = launch(replace(job, command=("no-such-program",)), said.append, said.append)
    assert ended.status == 127
    assert "trnsim: cannot start no-such-program: No such file or directory" in "\n".join(said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_cuts_the_log_and_the_program_goes_on(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-2.log").symlink_to("/dev/full")
    ended, said, _, _ = launched(tmp_path, "print('much'); print('more')")
    assert ended.status == 0
    assert said == "the log of rank 2 is cut: No space left on device"


LAUNCHING = """
import sys
sys.path.insert(0, {tests!r})
import test_launcher
from pathlib import Path
from trnsim.launch.launcher import launch
job = test_launcher.job_of(Path({folder!r}), {code!r})
sys.exit(launch(job, print, lambda text: print(text, end="", flush=True)).status)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_passes_through_and_leaves_no_process(tmp_path, number):
    code = f"marker = {str(tmp_path)!r}\nprint('up', flush=True); time.sleep(60)"
    program = LAUNCHING.format(tests=str(Path(__file__).parent), folder=str(tmp_path), code=code)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert left_running(str(tmp_path)) == []


@pytest.mark.slow
def test_a_fault_that_found_no_step_is_said(tmp_path):
    code = "from trnsim.device.steps import steps\nsteps.note_optimizer_step()"
    ended, said, *_ = launched(tmp_path, code, fault_texts=("rank=2,step=2",))
    assert ended.status == 0
    assert said == "the fault rank=2,step=2 did not strike: the last step of rank 2 is 1"
    ended, said, *_ = launched(tmp_path, code, fault_texts=("rank=2,step=1",))
    assert ended.status == 137
    assert "rank 2 (node 1, local rank 0) was ended by SIGKILL at step 1" in said


class OfFirstRank(LaunchJob):
    """A job of which only rank 0 starts."""

    def agents(self):
        return super().agents()[:1]


def test_an_agent_that_told_its_ranks_end_before_it_was_heard_started_it(tmp_path, monkeypatch):
    handle, rounds = launcher._Attempt._handle_events, []

    def handle_late(attempt):
        rounds.append(attempt)
        if len(rounds) > 1:
            return handle(attempt)
        for agent in attempt._agents.values():  # the launcher does not run meanwhile
            agent.wait()
        return False

    monkeypatch.setattr(launcher._Attempt, "_handle_events", handle_late)
    ended = launch(OfFirstRank(**vars(job_of(tmp_path, "sys.exit(4)"))), print, print)
    assert (ended.status, ended.lost) == (4, ["rank 0 (node 0, local rank 0) ended with status 4"])


def test_agents_that_start_no_ranks_are_refused(tmp_path, monkeypatch):
    failing = [("node-0", [sys.executable, "-c", "raise SystemExit(3)"], {})]
    monkeypatch.setattr(LaunchJob, "agents", lambda _: failing)
    with pytest.raises(BadInput, match="node-0 ended with status 3 before all ranks had started"):
        launched(tmp_path, "", through_torch=True)
    assert (tmp_path / "logs" / "node-0.log").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="proc(5)")
def test_a_stopped_rank_is_named_and_the_job_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("trnsim.launch.heartbeat.STOPPED_S", 0.1)
    said = []

    def say(text):
        said.append(text)
        if "kill -CONT" in text:
            os.kill(int(text.partition("-CONT ")[2].split()[0]), signal.SIGCONT)

    code = "import signal\nif rank == '2': os.kill(os.getpid(), signal.SIGSTOP); time.sleep(1.5)\n"
    ended = launch(job_of(tmp_path, code), say, lambda _: None)
    assert ended.status == 0
    assert "rank 2 (node 1, local rank 0) has been stopped by a signal" in said[0]
    assert said[1:] == ["rank 2 (node 1, local rank 0) goes on"]

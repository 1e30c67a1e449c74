"""The parent of a rank's process: its variables, its log, its end.

Run by path, without trnsim: `python supervisor.py program arguments`. TRNSIM_LAUNCH has the host
and port of the launcher. The connection is a lifeline for both: the launcher learns at once how a
rank ended, and if the launcher ends, the rank does too. Output passes through here to the rank's
log; if the disk is full the log is cut, and the program goes on.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

_TAIL_BYTES = 4096
_CHUNK_BYTES = 1 << 16
_DRAIN_S = 0.2
"""Seconds to wait for output after the program's end, as its children may hold the pipe open."""
_GRACE_S = 5.0
"""Seconds from a signal that is passed on until a program that does not end is killed."""
_SIGNAL_STATUS_BASE = 128
"""Number that shells add to that of a signal that ended a program."""
_FORWARDED = {signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM)}
"""Signals that are passed on to the program; Windows, where nothing is launched, has no SIGHUP."""
_PDEATHSIG = 1
_BEAT_S = 1.0
"""Seconds between two reports on the program's state."""
_STEP_FILE = struct.Struct("<qqq")
"""The step, 1 if a peer is lost, and 1 if the rank waits for others (trnsim.device.steps)."""


def variables(environment: dict[str, str], launch: dict[str, Any]) -> dict[str, str]:
    """Environment of a rank: the agent's environment with the variables of AWS's runtime."""
    rank, world = environment["RANK"], int(environment["WORLD_SIZE"])
    count = launch["rank_cores"]
    core = launch["first_core"] + int(environment["LOCAL_RANK"]) * count
    address = f"{environment['MASTER_ADDR']}:{launch['coordinator_port']}"
    rank_environment = environment | {
        "NEURON_RT_VISIBLE_CORES": str(core) if count == 1 else f"{core}-{core + count - 1}",
        "NEURON_RT_NUM_CORES": str(count),
        "NEURON_RT_ROOT_COMM_ID": address,
        "NEURON_PJRT_PROCESS_INDEX": rank,
        "NEURON_PJRT_PROCESSES_NUM_DEVICES": ",".join([str(count)] * world),
        "JAX_COORDINATOR_ADDRESS": address,
        "PYTHONUNBUFFERED": "1",
    }
    rank_environment.pop("TRNSIM_LAUNCH", None)
    for name, value in launch["restored"].items():
        rank_environment.pop(name, None)
        if value is not None:
            rank_environment[name] = value
    return rank_environment


class _Log:
    """Log of a rank: a file, and its last bytes."""

    def __init__(self, path: Path, restart: int) -> None:
        self.tail = b""
        self.problem = ""
        self._file: BinaryIO | None = None
        try:
            self._file = path.open("ab" if restart else "wb", buffering=0)
        except OSError as error:
            self._note_problem(error)
        if restart:
            self.write(f"--- started again, {restart}\n".encode())
            self.tail = b""

    def write(self, content: bytes) -> None:
        self.tail = (self.tail + content)[-_TAIL_BYTES:]
        if self._file is not None:
            try:
                self._file.write(content)
            except OSError as error:
                self._note_problem(error)

    def _note_problem(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)
        self._file = None


class Supervisor:
    """Parent of a rank's process, from its start to its end."""

    def __init__(self, launch: dict[str, Any], command: list[str]) -> None:
        self.rank = int(os.environ["RANK"])
        self._launch = launch
        self._connection = socket.create_connection((launch["host"], launch["port"]))
        self._tell(
            token=launch["token"], restart=launch["restart"], rank=self.rank,
            node=int(os.environ["GROUP_RANK"]), local_rank=int(os.environ["LOCAL_RANK"]),
        )  # fmt: skip
        self._log = _Log(Path(launch["logs"]) / f"rank-{self.rank}.log", launch["restart"])
        self._step_path = self._make_step_file()
        self._command = command
        # A character of several bytes may lie on the border of two reads.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def run(self) -> int:
        """Run the program; returns its exit status, as shells count it."""
        end_reader, end_writer = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # until they can be forwarded
        try:
            self._start()
        except OSError as error:
            self._log.write(f"trnsim: cannot start {self._command[0]}: {error.strerror}\n".encode())
            self._report_end(127)
            return 127
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        threading.Thread(target=self._wait, args=(end_writer,), daemon=True).start()
        self._serve(end_reader)
        incomplete = self._decoder.decode(b"", final=True)
        if incomplete:
            self._tell(says=incomplete)
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what the program left behind
        status = self._process.returncode
        self._report_end(status)
        return status if status >= 0 else _SIGNAL_STATUS_BASE - status

    def _start(self) -> None:
        environment = variables(dict(os.environ), self._launch)
        environment["TRNSIM_STEP_FILE"] = self._step_path
        self._process = subprocess.Popen(  # noqa: S603  the program that is to be launched
            self._command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_as_a_program,  # noqa: PLW1509  before any thread
        )  # fmt: skip

    def _wait(self, end_writer: int) -> None:
        self._process.wait()
        self._ended_s = time.monotonic()
        os.write(end_writer, b".")

    def _serve(self, end_reader: int) -> None:
        """Pass on output and signals until the program has ended."""
        output: Any = self._process.stdout
        os.set_blocking(output.fileno(), False)
        with selectors.DefaultSelector() as selector:
            for source in (output, self._connection, end_reader):
                selector.register(source, selectors.EVENT_READ)
            is_over, beat_s = False, time.monotonic()
            while not is_over:
                if time.monotonic() - beat_s >= _BEAT_S:
                    beat_s = time.monotonic()
                    self._beat()
                for key, _ in selector.select(_BEAT_S):
                    if key.fileobj is output:
                        if not self._pass_on(output):
                            selector.unregister(output)
                    elif key.fileobj is self._connection:
                        if not self._obey_launcher():
                            selector.unregister(self._connection)
                    else:
                        is_over = True
        until_s = time.monotonic() + _DRAIN_S
        while self._pass_on(output) and time.monotonic() < until_s:
            time.sleep(_DRAIN_S / 20)

    def _pass_on(self, output: Any) -> bool:
        """Write the program's output to its log; returns True if more may come."""
        content = output.read(_CHUNK_BYTES)
        if content:
            self._log.write(content)
            if self.rank == self._launch["shown"]:
                self._tell(says=self._decoder.decode(content))
        return bool(content) or content is None

    def _obey_launcher(self) -> bool:
        """Send the program the signals of the launcher; returns False if the launcher is gone."""
        try:
            content = self._connection.recv(_CHUNK_BYTES)
        except OSError:
            content = b""
        for number in content.split():
            self._send_signal(int(number))
        if not content:
            self._forward(signal.SIGTERM, None)
        return bool(content)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on; a program that does not end is killed."""
        del frame
        self._send_signal(number)
        killer = threading.Timer(_GRACE_S, self._send_signal, (signal.SIGKILL,))
        killer.daemon = True
        killer.start()

    def _send_signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)

    def _beat(self) -> None:
        """Report the program's state."""
        step, _, waits = self._read_step()
        state, cpu_s = state_of(self._process.pid)
        self._tell(
            beat={"pid": self._process.pid, "state": state, "cpu_s": cpu_s, "step": step,
                  "is_waiting": bool(waits)}
        )  # fmt: skip

    def _read_step(self) -> tuple[int, int, int]:
        """Content of the program's step file."""
        with contextlib.suppress(OSError, struct.error):
            step, has_lost_peer, waits = _STEP_FILE.unpack(Path(self._step_path).read_bytes())
            return step, has_lost_peer, waits
        return 0, 0, 0

    def _report_end(self, status: int) -> None:
        step, has_lost_peer, _ = self._read_step()
        with contextlib.suppress(OSError):
            Path(self._step_path).unlink()
        with contextlib.suppress(OSError, AttributeError):  # a killed rank leaves its lock behind
            for path in Path(tempfile.gettempdir()).glob(f"trnsim-alive-{self._process.pid}-*"):
                path.unlink()
        self._tell(
            status=status, ended_s=getattr(self, "_ended_s", time.monotonic()), step=step,
            follows=bool(has_lost_peer),
            tail=self._log.tail.decode(errors="replace"), log_problem=self._log.problem,
        )  # fmt: skip
        self._connection.close()

    def _make_step_file(self) -> str:
        try:
            handle, path = tempfile.mkstemp(prefix="trnsim-step-")
            os.write(handle, bytes(_STEP_FILE.size))
            os.close(handle)
        except OSError:
            return ""
        return path

    def _tell(self, **fields: Any) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(fields).encode() + b"\n")


def state_of(pid: int) -> tuple[str, float]:
    """(State of a process as a letter, its CPU seconds); ("", 0) if the system does not tell."""
    try:
        # The name before the parenthesis may hold anything (proc(5)).
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return "", 0.0


def _as_a_program() -> None:
    """End the program by Ctrl-C, which shells disable in the background, and with this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Run the program that the arguments name."""
    return Supervisor(json.loads(os.environ["TRNSIM_LAUNCH"]), sys.argv[1:]).run()


if __name__ == "__main__":
    sys.exit(main())

"""Launcher of a job's ranks: starts them, watches them, ends them together, restarts them.

Each rank has a supervisor with a connection to the launcher. The first rank that ends with a status
other than 0 is lost: it is named, and all other ranks end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from trnsim.device.faults import RESTART_VARIABLE, parse
from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.launch.heartbeat import Heartbeats, beat_of
from trnsim.launch.job import LaunchJob

_GRACE_S: Final = 5.0
"""Seconds in which ranks must end after a signal."""
_ROUNDS_OF_A_RANK: Final = 2
"""Rounds of events until the message of a new rank is read: its connection is accepted first."""
_POLL_S: Final = 0.05
"""Seconds between two looks at agents and signals."""
_FOLLOWED_S: Final = 5.0
"""Seconds to wait for the end of a rank that a lost rank names as the reason of its own end."""
_SETTLED_S: Final = 0.5
"""Seconds from the end of a lost rank until it is named. If it ended because of another rank, the
end of that rank may be reported later, as its children hold its output open."""
_AGENT_S: Final = 30.0
"""Seconds in which agents must end after all of their ranks."""
_NODE_S: Final = 1.0
"""Seconds in which the other ranks of a lost rank's node end if the node is lost."""
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds of silence, seconds between two questions, and questions without an answer (tcp(7))."""
_SHOWN_LINES: Final = 10
_CHUNK_BYTES: Final = 1 << 16
_SIGNAL_STATUS_BASE: Final = 128

Say = Callable[[str], object]
"""A function that shows a line to the user."""


@dataclass
class RankProcess:
    """Process of a rank.

    Attributes:
        connection: the connection to its supervisor; None once it is closed.
        host: name of its node; "" where all nodes are this machine.
        status: its exit status, or minus the signal that ended it; None while it runs.
        ended_s: time of its end, on the clock that all processes share.
        step: last step that it began; 0 if it reports none.
        follows: True if it ended, as it reports, because another rank had.
        tail: end of its log.
        log_problem: the reason why its log is cut; "" if it is whole.
        unread_bytes: received bytes of a message whose end is still to come.
    """

    rank: int
    node: int
    local_rank: int
    connection: socket.socket | None
    host: str = ""
    status: int | None = None
    ended_s: float = 0.0
    step: int = 0
    follows: bool = False
    tail: str = ""
    log_problem: str = ""
    unread_bytes: bytes = b""

    @property
    def end_text(self) -> str:
        """Its end, in words."""
        status = self.status
        if status is None:
            return "lost its supervisor"
        if status < 0:
            return f"was ended by {_signal_name(-status)}"
        return f"ended with status {status}"

    @property
    def place(self) -> str:
        """The rank and its place, in words."""
        node = f"node {self.node}, {self.host}" if self.host else f"node {self.node}"
        return f"rank {self.rank} ({node}, local rank {self.local_rank})"

    @property
    def end(self) -> str:
        """The rank, its place and its end, in a sentence."""
        step = f" at step {self.step}" if self.step else ""
        return f"{self.place} {self.end_text}{step}"


@dataclass
class JobEnd:
    """End of a job.

    Attributes:
        status: exit status: 0, that of the lost rank, or 128 plus the number of a signal.
        lost: the lost ranks in order, each in a sentence.
    """

    status: int = 0
    restarts: int = 0
    lost: list[str] = field(default_factory=list[str])


def launch(job: LaunchJob, say: Say, show: Say) -> JobEnd:
    """Run a job to its end.

    Args:
        job: the job.
        say: shows a line about the job.
        show: shows output of the program.

    Raises:
        BadInput: agents cannot start the ranks.
    """
    job_end = JobEnd()
    with _signals() as signals:
        while True:
            attempt = _Attempt(job, job_end.restarts, signals, say, show)
            job_end.status = attempt.run()
            if attempt.lost is not None:
                job_end.lost.append(attempt.lost.end)
            if not (job_end.status or job_end.restarts):
                attempt.report_unreached_faults()
            if not job_end.status or signals or job_end.restarts >= job.max_restarts:
                return job_end
            job_end.restarts += 1
            say(f"all ranks start again: {job_end.restarts} of {job.max_restarts}")


@contextlib.contextmanager
def _signals() -> Generator[list[int]]:
    """Context in which signals that ask to end are appended to a list."""
    codes: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield codes
        return
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {kind: signal.signal(kind, lambda number, _: codes.append(number)) for kind in kinds}
    try:
        yield codes
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)


class _Attempt:
    """A single run of all ranks: from their start to the end of the last.

    Attributes:
        lost: the first rank that did not end with status 0.
    """

    def __init__(
        self, job: LaunchJob, restart: int, signals: list[int], say: Say, show: Say
    ) -> None:
        self._job, self._restart, self._signals = job, restart, signals
        self._say, self._show = say, show
        self._token = secrets.token_hex(8)
        self._ranks: dict[int, RankProcess] = {}
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._strangers: dict[socket.socket, bytes] = {}  # their bytes; no rank has them yet
        self._heartbeats = Heartbeats(say)
        self._start_s = time.monotonic()
        self.lost: RankProcess | None = None

    def run(self) -> int:
        """Start all ranks and wait for their end; returns the exit status."""
        with contextlib.ExitStack() as stack:
            self._server = stack.enter_context(socket.create_server((self._job.address, 0)))
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._selector.register(self._server, selectors.EVENT_READ)
            try:
                self._start_agents(stack)
                self._watch()
            finally:
                self._end_all()
            return self._status()

    def _start_agents(self, stack: contextlib.ExitStack) -> None:
        job = self._job
        launch = job.launch_variable(self._server.getsockname()[1], self._token, self._restart)
        job.announce(launch)
        environment = job.variables() | {
            RESTART_VARIABLE: str(self._restart),
            "TRNSIM_LAUNCH": json.dumps(launch),
        }
        for name, command, agent_variables in job.agents():
            log = stack.enter_context(self._agent_log(name))
            self._agents[name] = subprocess.Popen(  # noqa: S603  what was asked for
                command, env=environment | agent_variables, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _agent_log(self, name: str) -> IO[bytes]:
        """Log of an agent; none of a supervisor, which is silent and keeps its rank's log."""
        if not self._job.through_torch:
            return Path(os.devnull).open("wb")
        path = self._job.logs / f"{name}.log"
        try:
            return path.open("ab" if self._restart else "wb")
        except OSError as error:
            raise BadInput(
                f"cannot write {path}: {error.strerror}", fix="name another folder: --report"
            ) from error

    def report_unreached_faults(self) -> None:
        """Report the faults of ranks whose step was never reached."""
        for text in self._job.fault_texts:
            fault = parse(text)
            rank = self._ranks[fault.rank] if fault.rank >= 0 else None
            if rank is not None and rank.step < fault.step:
                last_step = f"the last step of rank {rank.rank} is {rank.step}"
                self._say(f"the fault {text} did not strike: {last_step}")

    # Watching

    def _watch(self) -> None:
        """Watch until all ranks have ended with status 0, a rank is lost, or a signal has come."""
        while not self._signals and not self._is_over():
            self._handle_events()
            self._heartbeats.look(time.monotonic())
            lost = self._first_lost()
            wait_s = _FOLLOWED_S if lost is not None and lost.follows else _SETTLED_S
            if lost is not None and time.monotonic() - lost.ended_s > wait_s:
                self.lost = lost
                self._report_lost(lost)
                return
            self._check_agents()

    def _is_over(self) -> bool:
        ranks = self._ranks.values()
        return len(ranks) == self._job.fabric.ranks and all(rank.status == 0 for rank in ranks)

    def _handle_events(self) -> bool:
        """Handle each connection that is ready once; False if none was ready."""
        events = self._selector.select(_POLL_S)
        for key, _ in events:
            source: Any = key.fileobj
            if source is self._server:
                connection, _ = self._server.accept()
                connection.setblocking(True)
                _keep_alive(connection)
                self._strangers[connection] = b""
                self._selector.register(connection, selectors.EVENT_READ)
            else:
                self._read_from(source)
        return bool(events)

    def _read_from(self, connection: socket.socket) -> None:
        try:
            content = connection.recv(_CHUNK_BYTES)
        except OSError:
            content = b""
        rank = next((rank for rank in self._ranks.values() if rank.connection is connection), None)
        if not content:
            self._selector.unregister(connection)
            connection.close()
            self._strangers.pop(connection, None)
            if rank is not None:
                self._heartbeats.forget(rank.rank)
                rank.connection = None
                rank.ended_s = rank.ended_s or time.monotonic()
            return
        unread_bytes = (
            self._strangers.pop(connection, b"") if rank is None else rank.unread_bytes
        ) + content
        *lines, incomplete = unread_bytes.split(b"\n")
        if rank is None:
            if not lines and len(incomplete) < _CHUNK_BYTES:
                self._strangers[connection] = incomplete
                return
            rank = self._rank_of(connection, lines.pop(0) if lines else b"")
            if rank is None:  # any program of this machine may connect
                self._selector.unregister(connection)
                connection.close()
                return
        for text in lines:
            self._record_message(rank, json.loads(text))
        rank.unread_bytes = incomplete

    def _rank_of(self, connection: socket.socket, text: bytes) -> RankProcess | None:
        """The new rank whose supervisor's first message is `text`; None for another text.

        Raises:
            BadInput: another machine refuses to start its ranks.
        """
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or message.get("token") != self._token:
            return None
        if "refusal" in message:
            raise BadInput(message["refusal"], fix="look at the output of that task")
        node = message["node"]
        host = self._job.hosts[node] if self._job.hosts else ""
        rank = RankProcess(message["rank"], node, message["local_rank"], connection, host)
        self._ranks[rank.rank] = rank
        return rank

    def _record_message(self, rank: RankProcess, message: dict[str, Any]) -> None:
        """Record a message of a rank's supervisor: output, a beat, or the rank's end."""
        if "says" in message:
            self._show(message["says"])
        elif "beat" in message:
            beat = beat_of(message["beat"], time.monotonic())
            self._heartbeats.hear(rank.rank, rank.place, beat)
        else:
            self._heartbeats.forget(rank.rank)
            for name, value in message.items():
                setattr(rank, name, value)
            if self._job.hosts:  # each machine has a clock of its own
                rank.ended_s = time.monotonic()
            if rank.log_problem:
                self._say(f"the log of rank {rank.rank} is cut: {rank.log_problem}")

    def _first_lost(self) -> RankProcess | None:
        lost = [
            rank
            for rank in self._ranks.values()
            if (rank.status is None and rank.connection is None) or rank.status
        ]
        return min(lost, key=lambda rank: (rank.follows, rank.ended_s), default=None)

    def _report_lost(self, lost: RankProcess) -> None:
        path = self._job.logs / f"rank-{lost.rank}.log"
        lines = lost.tail.splitlines()[-_SHOWN_LINES:]
        log_lines = [f"its last lines, of {path}:", *(f"  | {text}" for text in lines)]
        parts = [lost.end, *self._node_lines(lost), *(log_lines if lines else ["it said nothing"])]
        self._say("\n".join(parts))

    def _node_lines(self, lost: RankProcess) -> list[str]:
        """A line about a node whose ranks have all ended with the lost rank; [] if some run."""
        if not lost.host:
            return []
        ranks = [rank for rank in self._ranks.values() if rank.node == lost.node]
        self._wait_until(lambda: not any(map(_runs, ranks)), _NODE_S)
        if len(ranks) == 1 or any(_runs(rank) or rank.status == 0 for rank in ranks):
            return []
        numbers = sorted(rank.rank for rank in ranks)
        return [f"all ranks of {lost.host} ended with it: {', '.join(map(str, numbers))}"]

    def _check_agents(self) -> None:
        """Refuse to wait for ranks whose agent has ended without starting them, or that are late.

        Raises:
            BadInput: an agent has ended before its ranks started, or ranks of other machines have
                not started in time.
        """
        for name, agent in self._agents.items():
            if agent.poll() is not None and len(self._ranks) < self._job.fabric.ranks:
                # It may have connected, told its rank's end and ended since events were handled.
                for _ in range(_ROUNDS_OF_A_RANK * self._job.fabric.ranks):
                    if not self._handle_events():
                        break
                if not all(map(_runs, self._ranks.values())):
                    return
                raise BadInput(
                    f"{name} ended with status {agent.returncode} before all ranks had started",
                    fix=f"look at {self._job.logs / name}.log",
                )
        self._check_start()

    def _check_start(self) -> None:
        """Refuse to wait longer for ranks of other machines.

        Raises:
            BadInput: some have not started, with their nodes.
        """
        missing = self._job.fabric.ranks - len(self._ranks)
        if (
            not self._job.hosts
            or not missing
            or time.monotonic() - self._start_s < self._job.start_s
        ):
            return
        present = {rank.node for rank in self._ranks.values()}
        hosts = [host for node, host in enumerate(self._job.hosts) if node not in present]
        raise BadInput(
            f"{counted(missing, 'rank has', 'ranks have')} not started in "
            f"{self._job.start_s:g} s, of {', '.join(hosts or self._job.hosts)}",
            fix="look at the output of the tasks there: srun --label",
        )

    # Ending

    def _end_all(self) -> None:
        """End all processes: by a signal, and after a grace period by SIGKILL."""
        if self.lost is not None or not self._is_over():
            self._signal_ranks(self._signals[0] if self._signals else signal.SIGTERM)
            self._wait_until(lambda: not self._running_ranks(), _GRACE_S)
            self._signal_ranks(signal.SIGKILL)
            self._wait_until(lambda: not self._running_ranks(), _GRACE_S)
            for agent in self._agents.values():
                _signal_group(agent, signal.SIGTERM)
            self._wait_until(self._are_agents_over, _GRACE_S)
        else:
            self._wait_until(self._are_agents_over, _AGENT_S)
        for agent in self._agents.values():
            _signal_group(agent, signal.SIGKILL)
            agent.wait()
        for connection in [
            *self._strangers,
            *(rank.connection for rank in self._ranks.values() if rank.connection),
        ]:
            connection.close()

    def _running_ranks(self) -> list[RankProcess]:
        return [rank for rank in self._ranks.values() if _runs(rank)]

    def _are_agents_over(self) -> bool:
        return all(agent.poll() is not None for agent in self._agents.values())

    def _wait_until(self, condition: Callable[[], bool], wait_s: float) -> None:
        until_s = time.monotonic() + wait_s
        while not condition() and time.monotonic() < until_s:
            self._handle_events()

    def _signal_ranks(self, number: int) -> None:
        for rank in self._running_ranks():
            with contextlib.suppress(OSError):
                if rank.connection is not None:
                    rank.connection.sendall(f"{int(number)} ".encode())

    def _status(self) -> int:
        if self._signals:
            return _SIGNAL_STATUS_BASE + self._signals[0]
        if self.lost is None:
            return 0
        status = self.lost.status
        if status is None:
            return 1
        return status if status > 0 else _SIGNAL_STATUS_BASE - status


def _runs(rank: RankProcess) -> bool:
    return rank.connection is not None and rank.status is None


def _signal_name(number: int) -> str:
    """The name of a signal; "signal 40" without a name, as most real-time signals are."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _keep_alive(connection: socket.socket) -> None:
    """Let the system close a connection whose other machine is gone, within half a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _signal_group(agent: subprocess.Popen[bytes], number: int) -> None:
    if agent.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(agent.pid, number)


def stderr_line(text: str) -> None:
    """Show a line about the job on stderr."""
    sys.stderr.write(f"trnsim: {text}\n")
    sys.stderr.flush()

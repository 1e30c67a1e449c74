"""Many processes that keep a state and are killed at random, while this one reads all of them.

Prints how many were killed, and fails on an exception, on a record of a dead process two seconds
after its end, and on files that stay behind. `tests/instance/state/swarm.py` runs it for a minute.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.reader import read_all
from trnsim.instance.state.record import ProcessRecord
from trnsim.instance.state.writer import Writer

PROCESSES = 64
GONE_AFTER_S = 2.0


def made() -> ProcessRecord:
    """A record of this process, as large as one of a rank."""
    pid, started = own_identity()
    memory = {core: {"tensors": 1 << 30, "constants": core} for core in range(4)}
    return ProcessRecord(
        pid, started, "swarm", "torch", str(pid), "trn2.48xlarge", 2, (0, 1, 2, 3), time.time(),
        memory_bytes=memory,
    )  # fmt: skip


def begin() -> int:
    """The number of a new process that writes five times a second."""
    pid = os.fork()
    if pid == 0:
        Writer(made, period_s=0.2).start()
        while True:
            time.sleep(1.0)
    return pid


def swarm(seconds: float, folder: Path) -> tuple[int, int, int]:
    """Reads, killed processes, and the most records seen at once."""
    living = [begin() for _ in range(PROCESSES)]
    ended: dict[int, float] = {}
    reads = most = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        victim = random.choice(living)  # noqa: S311  no secret
        os.kill(victim, signal.SIGKILL)
        ended[victim] = time.monotonic()
        living.remove(victim)
        if random.random() < 0.5:  # noqa: S311  half are collected, half stay zombies
            os.waitpid(victim, 0)
        living.append(begin())
        records = read_all(folder)
        reads, most = reads + 1, max(most, len(records))
        now = time.monotonic()
        late = [one.pid for one in records if now - ended.get(one.pid, now) > GONE_AFTER_S]
        assert not set(late) - set(living), f"dead processes are shown: {late}"
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + GONE_AFTER_S
    while read_all(folder) and time.monotonic() < until:
        time.sleep(0.05)
    assert read_all(folder) == []
    return reads, len(ended), most


if __name__ == "__main__":
    asked_s = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as name:
        os.environ["TRNSIM_STATE"] = name
        read, killed, seen = swarm(asked_s, Path(name))
        left = [path.name for path in Path(name).glob("*.json")]
    assert not left, left
    sys.stdout.write(f"{read} reads, {killed} killed, {seen} seen at once, none shown dead\n")

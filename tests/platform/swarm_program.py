"""Processes that keep a state and are killed with -9 at random.

python swarm_program.py SECONDS; prints JSON: when each killed process had ended, by its number.
"""

import json
import os
import random
import signal
import sys
import time

from swarm import PROCESSES, begin


def main(seconds):
    living = [begin() for _ in range(PROCESSES)]
    ended = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        victim = random.choice(living)  # noqa: S311  no secret
        os.kill(victim, signal.SIGKILL)
        ended[victim] = time.time()
        living.remove(victim)
        if random.random() < 0.5:  # noqa: S311  half are collected, half stay zombies
            os.waitpid(victim, 0)
        living.append(begin())
        time.sleep(0.05)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        ended[pid] = time.time()
    print(json.dumps(ended), flush=True)
    sys.stdin.read()  # zombies stay until whoever looks has looked


if __name__ == "__main__":
    main(float(sys.argv[1]))

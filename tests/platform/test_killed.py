"""neuron-monitor goes on while 64 programs are killed at random and others begin."""

import json
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise

from found_programs import FOLDER, TRNSIM, wait_for

KILLING_S = 60.0
GONE_AFTER_S = 2.0
PERIOD = "500ms"
GROUPS = ("neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage", "execution_stats")


def test_no_report_breaks_or_shows_a_dead_process_while_64_are_killed_for_a_minute(tmp_path):
    groups = [{"type": name, "period": PERIOD} for name in GROUPS]
    config = tmp_path / "monitor.json"
    config.write_text(json.dumps({"neuron_runtimes": [{"tag_filter": ".*", "metrics": groups}]}))
    variables = os.environ | {
        "TRNSIM_INSTANCE": "trn2.48xlarge",
        "PYTHONPATH": str(FOLDER.parent / "instance" / "state"),
    }
    pipe = subprocess.PIPE
    lines = []
    with (
        subprocess.Popen(
            [*TRNSIM, "neuron-monitor", "-c", str(config)], stdout=pipe, stderr=pipe, env=variables
        ) as monitor,
        subprocess.Popen(
            [sys.executable, str(FOLDER / "swarm_program.py"), str(KILLING_S)],
            stdin=pipe,
            stdout=pipe,
            env=variables,
        ) as swarm,
    ):
        reader = threading.Thread(
            target=lambda: lines.extend((time.time(), line) for line in monitor.stdout)
        )
        reader.start()
        ended = {int(pid): at_s for pid, at_s in json.loads(swarm.stdout.readline()).items()}
        last_s = max(ended.values()) + GONE_AFTER_S
        wait_for(lambda: lines and lines[-1][0] > last_s + 1.0, "a report after the last")
        assert monitor.poll() is None
        monitor.terminate()
        reader.join()
        said = monitor.stderr.read()
        swarm.communicate()
    assert said == b"emulated by trnsim\n"
    reports = [(at_s, json.loads(line)) for at_s, line in lines]
    shown = [(at_s, {one["pid"] for one in each["neuron_runtime_data"]}) for at_s, each in reports]
    # A report begins when the one before it was read, and takes a while on a busy machine.
    dead = {
        pid: began_s - ended[pid]
        for (began_s, _), (_, pids) in pairwise(shown)
        for pid in pids
        if began_s - ended[pid] > GONE_AFTER_S
    }
    assert not dead
    assert not shown[-1][1]
    assert max(len(pids) for _, pids in shown) > 32
    assert len(ended) > 200

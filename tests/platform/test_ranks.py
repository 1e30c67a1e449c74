"""Eight ranks of torchrun appear in neuron-monitor with the memory that PyTorch says they hold."""

import json
import os
import subprocess
import threading
import time

from found_programs import FOLDER, TRNSIM, running, wait_for

from trnsim.instance.state.record import MEMORY

RANKS = 8
GONE_AFTER_S = 2.0
PERIOD = "500ms"


def test_eight_ranks_appear_with_their_memory_and_are_gone_two_seconds_after_their_end(tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    groups = [{"type": "memory_used", "period": PERIOD}]
    config = tmp_path / "monitor.json"
    config.write_text(json.dumps({"neuron_runtimes": [{"tag_filter": ".*", "metrics": groups}]}))
    variables = {"TRNSIM_INSTANCE": "trn2.48xlarge", "OMP_NUM_THREADS": "1"}
    program = str(FOLDER / "rank_program.py")
    torchrun = ("torchrun", "--standalone", f"--nproc-per-node={RANKS}", program, str(folder))
    lines = []
    monitor = subprocess.Popen(
        [*TRNSIM, "neuron-monitor", "-c", str(config)],
        stdout=subprocess.PIPE,
        env=os.environ | variables,
    )
    reader = threading.Thread(
        target=lambda: lines.extend((time.time(), line) for line in monitor.stdout)
    )
    reader.start()
    try:
        with running(*torchrun, **variables) as ranks:
            wait_for(lambda: len(list(folder.glob("*.json"))) == RANKS, "eight ranks")
            told = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
            expected = {one["pid"]: by_category(one["stats"]) for one in told}
            found = wait_for(lambda: agreeing(lines, expected), "the memory of eight ranks")
            (folder / "end").touch()
            assert ranks.wait(60) == 0
            ended_s = time.time()
        wait_for(lambda: lines[-1][0] > ended_s + GONE_AFTER_S + 1, "a report after the end")
    finally:
        monitor.terminate()
        reader.join()
        monitor.stdout.close()
        monitor.wait()
    tensors = [one["stats"]["allocated_bytes.all.current"] for one in told]
    assert tensors == [4096 * (1 + rank) for rank in range(RANKS)]
    assert tensors == [expected[one["pid"]]["tensors"] for one in told]
    assert [list(found[one["pid"]]) for one in told] == [[str(rank)] for rank in range(RANKS)]
    assert not [line for at_s, line in lines if at_s > ended_s + GONE_AFTER_S and programs(line)]


def programs(line):
    """The memory of each program's cores in a report, by its number."""
    return {
        one["pid"]: one["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"][
            "neuroncore_memory_usage"
        ]
        for one in json.loads(line)["neuron_runtime_data"]
    }


def agreeing(lines, expected):
    """The last report's programs, where their one core has what PyTorch says, by category."""
    if not lines:
        return None
    found = programs(lines[-1][1])
    return (
        found
        if {pid: next(iter(cores.values())) for pid, cores in found.items()} == expected
        else None
    )


def by_category(stats):
    """The bytes of each category of neuron-monitor in PyTorch's figures."""
    return {kind: stats[f"{kind}_bytes.all.current"] for kind in MEMORY}

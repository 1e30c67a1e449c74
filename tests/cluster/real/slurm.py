"""Jobs of a real Slurm on emulated nodes: values, devices, a lost node, time and bill.

`make cluster` runs it; it also runs alone, as root: python tests/cluster/real/slurm.py [RANKS]
(ranks on each of the two nodes, spread over their 16 devices; 16 without). With --rewrite the page
gets what its job prints.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from datetime import datetime

import namespaces
from daemons import ROOT, Daemons, Failed, missing, wait_until
from showing import Report, kept_logs
from slurm_cluster import NODES, PYTHON, SlurmCluster
from written import written

NEEDED = ("slurmctld", "slurmd", "munged", "ip", "unshare", "nsenter")
RANKS, STEPS = 16, 3
PAGE = ROOT / "docs" / "how-to-slurm.md"
REWRITES = "--rewrite" in sys.argv
LAUNCH = f"srun {' '.join(PYTHON)} slurm launch"
PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("neuron")
rank, world = dist.get_rank(), dist.get_world_size()
values = torch.arange(1000, device="neuron") + float(rank)
dist.all_reduce(values)
expected = world * torch.arange(1000.0) + world * (world - 1) / 2
assert torch.equal(values.cpu(), expected), values
print("right", rank, world, os.environ["NEURON_RT_VISIBLE_CORES"], os.uname().nodename, flush=True)
while len(sys.argv) > 1 and time.time() < float(sys.argv[1]):
    dist.all_reduce(values.zero_())
    time.sleep(0.2)
"""
SMALL, LENGTH = "trn2.3xlarge", 256
TRAINING = ROOT / "tests" / "cluster" / "real" / "train_layer.py"
SIZES = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024,
    "max_position_embeddings": 1024, "tie_word_embeddings": False,
}  # fmt: skip
HOLDS = "import os, time; print('cores', os.environ['NEURON_RT_VISIBLE_CORES']); time.sleep({})"
DEVICES, DEVICE_CORES = 16, 4
"""Devices of a node, and logical cores of each at LNC=2."""


def main():
    told = missing(*NEEDED)
    if told or os.getuid() != 0:
        sys.exit("\n".join(["the Slurm part needs root, and:", *told]))
    namespaces.enter()
    ranks = int(next(filter(str.isdecimal, sys.argv), RANKS))
    with kept_logs("slurm") as folder:
        run(folder, ranks)
        left = namespaces.processes()
        if left:
            raise Failed(f"left: {left}")


def run(folder, ranks):
    report, daemons = Report("slurm"), Daemons(folder)
    cluster = SlurmCluster(daemons)
    try:
        report.show(f"Slurm of {cluster.start():.1f} s")
        (cluster.shared / "program.py").write_text(PROGRAM)
        lists(cluster, report)
        written(cluster, report)
        values(cluster, report, ranks)
        tasks(cluster, report)
        disjoint(cluster, report)
        steps(cluster, report)
        sets(cluster, report)
        refused(cluster, report)
        page(cluster, report)
        priced(cluster, report)
        lost(cluster, report)
    finally:
        keep_outputs(cluster)
        daemons.stop()
        wait_until(lambda: not namespaces.processes(), "processes of the nodes end", 15)


def keep_outputs(cluster):
    """Put the outputs of jobs beside the logs."""
    for path in cluster.shared.glob("*.out"):
        (cluster.folder / "logs" / path.name).write_bytes(path.read_bytes())


def check(is_so, what):
    if not is_so:
        raise Failed(what)


def lists(cluster, report):
    """Our own expansion of lists of hosts is scontrol's."""
    sys.path.insert(0, str(ROOT / "src"))
    from trnsim.cluster.slurm.hostlist import expand  # noqa: PLC0415

    chosen = random.Random(0)  # noqa: S311  a sequence of tests
    texts = ["n[1-2]", "a,b[08-11]c[0-1],d"]
    for _ in range(10):
        first, more = chosen.randrange(30), chosen.randrange(20)
        width = chosen.randrange(1, 4)
        texts.append(f"x[{first:0{width}d}-{first + more},{first + more + 2}]y[1,3],z{first}")
    for text in texts:
        theirs = tuple(cluster.ask("scontrol", "show", "hostnames", text).split())
        check(expand(text, "X") == theirs, f"{text}: {expand(text, 'X')}, scontrol {theirs}")
    report.show(f"{len(texts)} lists of hosts are as scontrol's")


def values(cluster, report, ranks):
    """A job of all devices of two nodes: each rank has the right sums."""
    cores = DEVICE_CORES * DEVICES // ranks
    script = f"{LAUNCH} --ranks-per-node {ranks} --cores-per-rank {cores} -- python program.py\n"
    job = cluster.submit("values", script, "-N2", "--ntasks-per-node=1", "--gres=neuron:16")
    (record,), took_s = cluster.wait(job, within_s=60 + 30 * ranks)
    check(record["JobState"] == "COMPLETED", cluster.output("values"))
    logs = [log.read_text() for log in cluster.shared.glob("trnsim-slurm-*/logs/rank-*.log")]
    found = sorted(re.search(r"right (\d+) (\d+) ([\d-]+) (\w+)", log).groups() for log in logs)
    expected = [
        (str(rank), str(2 * ranks), visible(rank % ranks, cores), NODES[rank // ranks])
        for rank in range(2 * ranks)
    ]
    check(found == sorted(expected), f"{found}, not {expected}")
    (world,) = cluster.shared.glob("trnsim-slurm-*/world.json")
    world = json.loads(world.read_text())
    devices = {tuple(rank["place"][:2]) for rank in world["ranks"]}
    check(len(devices) == min(2 * ranks, 2 * DEVICES), f"devices that compute: {sorted(devices)}")
    passed = [link["name"] for link in world["links"]]
    check("instance 1, EFA 0, in" in passed, passed)
    report.show(
        f"{2 * ranks} ranks of torch.distributed on 2 nodes with 16 devices each: all sums are "
        f"right, on {len(devices)} devices, each rank with {cores} cores; {took_s:.0f} s"
    )


def visible(rank, cores):
    """The cores of a rank of a node, as NEURON_RT_VISIBLE_CORES names them."""
    first = rank * cores
    return str(first) if cores == 1 else f"{first}-{first + cores - 1}"


def tasks(cluster, report):
    """The same with a task for each rank."""
    script = f"{LAUNCH} -- python program.py\n"
    options = ("-N2", "--ntasks-per-node=2", "-c2", "--gres=neuron:4")
    job = cluster.submit("tasks", script, *options)
    (record,), took_s = cluster.wait(job)
    check(record["JobState"] == "COMPLETED", cluster.output("tasks"))
    logs = cluster.shared.glob(f"trnsim-slurm-{job}.0/logs/rank-*.log")
    check(len([log for log in logs if "right" in log.read_text()]) == 4, "four logs are right")
    report.show(f"4 tasks that are ranks: all sums are right; {took_s:.0f} s")


def disjoint(cluster, report):
    """Two jobs of four devices on a node have different ones."""
    script = f'{LAUNCH} --ranks-per-node 1 -- python -c "{HOLDS.format(3)}"\n'
    options = ("-N1", "-w", "n1", "--ntasks-per-node=1", "--gres=neuron:4")
    jobs = [cluster.submit(f"disjoint-{number}", script, *options) for number in range(2)]
    records, _ = cluster.wait(*jobs)
    starts = sorted((record["StartTime"], record["EndTime"]) for record in records)
    check(starts[1][0] < starts[0][1], f"they did not run at once: {starts}")
    own = [first_device(cluster.output(f"disjoint-{number}")) for number in range(2)]
    check(sorted(own) == [0, 4], f"devices from {own} on")
    report.show("two jobs of --gres=neuron:4 at once on a node: devices 0-3 and 4-7")


def steps(cluster, report):
    """Two steps of a job of eight devices have four different ones each."""
    step = f"{LAUNCH.replace('srun', 'srun -n1 -c2 --exact --gres=neuron:4')} --ranks-per-node 1 "
    program = f'-- python -c "{HOLDS.format(3)}"'
    script = "".join(f"{step}{program} >step-{number}.out 2>&1 &\n" for number in range(2))
    options = ("-N1", "-n2", "-c2", "--gres=neuron:8")
    job = cluster.submit("steps", f"{script}wait\n", *options)
    cluster.wait(job)
    own = [first_device(cluster.output(f"step-{number}")) for number in range(2)]
    check(sorted(own) == [0, 4], f"devices from {own} on")
    report.show("two steps of --gres=neuron:4 of a job of 8: devices 0-3 and 4-7")


def first_device(output):
    found = re.search(r"^cores (\d+)", output, re.MULTILINE)
    check(found, output)
    return int(found[1]) // DEVICE_CORES


def sets(cluster, report):
    """Jobs of one number of devices on a node get legal sets alone, in any order of ends."""
    chosen, most = random.Random(1), {4: 4, 8: 2}  # noqa: S311  a sequence of tests
    placed = 0
    for count, together in most.items():
        live = {}
        for _ in range(10):
            if len(live) == together:
                job = chosen.choice(sorted(live))
                cluster.ask("scancel", job)
                cluster.wait(job, within_s=30)
                del live[job]
            job = cluster.submit("sets", "sleep 60\n", "-N1", "-w", "n2", f"--gres=neuron:{count}")
            text, _ = wait_until(
                lambda job=job: indices(cluster.ask("scontrol", "show", "job", "-d", job)),
                f"job {job} starts",
            )
            first, _, last = text.partition("-")
            check(int(last) - int(first) == count - 1, f"{count} devices: {text}")
            check(int(first) % count == 0, f"{count} devices: {text}")
            live[job] = text
            placed += 1
        for job in live:
            cluster.ask("scancel", job)
        cluster.wait(*live, within_s=30)
    report.show(f"{placed} jobs of 4 or of 8 devices, ended in random order: all sets are legal")


def indices(text):
    found = re.search(r"neuron:\d+\(IDX:([\d,-]+)\)", text)
    return found and found[1]


def refused(cluster, report):
    """A number of devices that no set has is refused in AWS's words."""
    script = f"{LAUNCH} -- python -c pass\n"
    job = cluster.submit("refused", script, "-N1", "--gres=neuron:2")
    (record,), _ = cluster.wait(job)
    said = "Instance type trn2.48xlarge does not support requests for device: 2."
    check(record["JobState"] == "FAILED" and said in cluster.output("refused"), record)
    report.show("a job of 2 devices is refused in AWS's words")


def page(cluster, report):
    """The job of docs/how-to-slurm.md prints what the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"```(python|bash|text)\n(.*?)```", text, re.DOTALL)
    blocks = dict(reversed(found))  # the first of each kind
    (cluster.shared / "sums.py").write_text(blocks["python"])
    (cluster.shared / "bin").mkdir()
    command = cluster.shared / "bin" / "trnsim"
    command.write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} "$@"\n')
    command.chmod(0o755)
    (cluster.shared / "sums.sbatch").write_text(blocks["bash"])
    path = f"PATH={cluster.shared}/bin:{os.environ['PATH']}"
    job = cluster.ask("env", path, "sbatch", "--parsable", "sums.sbatch").strip()
    (record,), took_s = cluster.wait(job)
    check(record["JobState"] == "COMPLETED", cluster.output("sums"))
    shown, told = blocks["text"], cluster.output("sums").replace(f"slurm-{job}.0", "slurm-12.0")
    told = "".join(line for line in told.splitlines(keepends=True) if "[c10d]" not in line)
    if REWRITES:
        PAGE.write_text(text.replace(shown, told, 1), encoding="utf-8")
    check(REWRITES or told == shown, f"the page shows\n{shown}\nand the job prints\n{told}")
    report.show(f"the job of docs/how-to-slurm.md prints what the page shows; {took_s:.0f} s")


def priced(cluster, report):
    """The time and bill of a job by its ranks' report beside those of `job price`, by term.

    The node is a trn2.3xlarge, so that a rank for each of its cores computes here: a plan is of
    whole instances, and the smallest two with EFA have 64 ranks. What Slurm bills beside the
    emulated time is this machine's computing and the start of tasks.
    """
    (cluster.shared / "config.json").write_text(json.dumps(SIZES))
    (cluster.shared / "train.py").write_text(TRAINING.read_text())
    options = (
        f"--tp 1 --zero-stage 0 --micro-batch-size 1 --global-batch-size 4 --seq-length {LENGTH}"
    )
    launch = f"{LAUNCH} --on {SMALL} --report priced -- python train.py"
    script = (
        f"#SBATCH -N1 --ntasks-per-node=1 --gres=neuron:1\n{launch} {options} --max-steps {STEPS}"
    )
    job = cluster.submit("priced", f"{script}\n", "-N1", "--ntasks-per-node=1", "--gres=neuron:1")
    (record,), _ = cluster.wait(job, within_s=600)
    check(record["JobState"] == "COMPLETED", cluster.output("priced"))
    words = ("--on", SMALL, "--model", "config.json", "--json")
    (price,) = json.loads(cluster.ask(*PYTHON, "job", "price", "priced.sh", *words))
    launched = ("job", "launched", "priced.sh", "priced/world.json")
    time = json.loads(cluster.ask(*PYTHON, *launched, *words))
    nodes = int(record["NumNodes"].partition("-")[0])
    check(nodes == price["roles"][0]["instances"], record["NumNodes"])
    check(time["launched_steps"] == price["steps"] == STEPS, time)
    close(time["priced_s"], price["time_s"]["p50"])
    close(time["usd"], price["usd"]["p50"])
    close(time["launched_usd"], time["launched_s"] * price["usd_per_hour"] / 3600)
    close(sum(term["difference_s"] for term in time["terms"]), time["difference_s"])
    ends = [datetime.fromisoformat(record[name]) for name in ("StartTime", "EndTime")]
    slurm_s = (ends[1] - ends[0]).total_seconds()
    terms = ", ".join(
        f"{term['name']} {1e3 * term['priced_s']:.2f} and {1e3 * term['launched_s']:.2f}"
        for term in time["terms"]
    )
    report.show(
        f"{STEPS} steps on a {SMALL}: job price {1e3 * time['priced_s']:.2f} ms, "
        f"{time['usd']:.3g} USD; the ranks' report {1e3 * time['launched_s']:.2f} ms, "
        f"{time['launched_usd']:.3g} USD. In ms: {terms}. scontrol has {slurm_s:.0f} s: this "
        "machine's computing, and the start and end of tasks"
    )


def close(first, second):
    """Refuse numbers that differ by more than a hundredth."""
    check(abs(first - second) <= 0.01 * abs(second), f"{first} and {second}")


def lost(cluster, report):
    """A killed slurmd ends the job, and the launcher names the ranks that were lost."""
    script = f"{LAUNCH} --ranks-per-node 1 -- python program.py {time.time() + 600}\n"
    options = ("-N2", "--ntasks-per-node=1", "--gres=neuron:16", "--no-requeue")
    job = cluster.submit("lost", script, *options)
    logs = cluster.shared / f"trnsim-slurm-{job}.0" / "logs"
    wait_until(
        lambda: "right" in (logs / "rank-1.log").read_text()
        if (logs / "rank-1.log").exists() else False,
        "both ranks run", 120,
    )  # fmt: skip
    began_s = time.monotonic()
    cluster.daemons.kill("slurmd-n2")
    said, took_s = wait_until(
        lambda: re.search(r"trnsim: (rank 1 \(node 1, n2, .*)", cluster.output("lost")),
        "the lost rank is named", 60,
    )  # fmt: skip
    (record,), _ = cluster.wait(job, within_s=120)
    check(record["JobState"] in ("FAILED", "NODE_FAIL"), record)
    report.show(
        f'slurmd of n2 killed: "{said[1]}" after {took_s:.1f} s; job {record["JobState"]} after '
        f"{time.monotonic() - began_s:.0f} s"
    )


if __name__ == "__main__":
    try:
        main()
    except subprocess.SubprocessError as error:
        sys.exit(str(error))

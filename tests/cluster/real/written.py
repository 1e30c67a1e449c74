"""Scripts that `trnsim job write --as sbatch` writes, under a real Slurm's `sbatch --test-only`.

A part of `make cluster`, in slurm.py.
"""

import sys
from dataclasses import replace

from daemons import ROOT, Failed

sys.path.insert(0, str(ROOT / "src"))

from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.planned import planned_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

WORDS = ("python", "-c", "print('it costs $5', \"and $HOME\")", "", "a\nb", "*")
ROLE = Role(replicas=2, devices=16, environment=(("A", "b 'c' \"d\""),), command=WORDS)


def jobs():
    """Jobs that the two nodes of the cluster can have."""
    yield Job(name="plain", roles=(ROLE,))
    yield Job(
        name="every 'option' #1",
        model="llama-3.1-8b",
        region="us-east-2",
        time_limit_s=90_061.0,
        copies=3,
        roles=(
            Role(
                replicas=2,
                least_replicas=1,
                is_exclusive=True,
                processes=2,
                devices=4,
                vcpus=2.0,
                memory_bytes=1 << 20,
                command=WORDS,
            ),
        ),
        kept_fields=(
            KeptField(("#SBATCH", "output"), "%x-%j.out"),
            KeptField(("script", 0), "set -euo pipefail"),
            KeptField(("tail",), "2>&1 | cat"),
        ),
    )
    yield Job(name="pair", roles=(Role(command=WORDS), Role(name="hetjob 1", command=("true",))))
    plan = planned_job(machine("trn2.48xlarge", 2), Layout(tensor=8, data=16, global_batch=64))
    yield replace(plan, roles=(replace(plan.roles[0], instance=""),))


def written(cluster, report):
    """Slurm takes what is written, and it is read as the job that it was."""
    count = 0
    for count, job in enumerate(jobs(), 1):
        path = cluster.shared / f"written-{count}.sh"
        path.write_text(write_spec(job, "sbatch"))
        answer = cluster.ask("sbatch", "--test-only", path.name)
        (spec,) = read_specs(path)
        if (spec.job.name, len(spec.job.roles)) != (job.name, len(job.roles)):
            raise Failed(f"{path.name} is read as {spec.job}; sbatch says {answer}")
    report.show(f"{count} written scripts: sbatch --test-only takes them")

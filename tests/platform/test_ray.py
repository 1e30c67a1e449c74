"""Ray, which asks /opt/aws/neuron/bin/neuron-ls for cores, and gives them to tasks."""

import json
import subprocess
import sys

from found_programs import FOLDER
from instance_shells import COMMAND, needs_namespace

from trnsim.instance.cores import parse_cores

SECONDS = 280
"""Sixteen workers start at once."""


def ray(instance, tasks, cores=4):
    """What Ray found and gave, in an instance."""
    program = [sys.executable, str(FOLDER / "ray_program.py"), str(tasks), str(cores)]
    done = subprocess.run(
        [*COMMAND, "--instance", instance, "--", *program],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_namespace
def test_sixteen_tasks_share_the_cores_of_an_instance_and_trnsim_has_those_of_each():
    found = ray("trn2.48xlarge", 16)
    assert found["cores"] == 64
    given = [parse_cores(visible) for visible, _ in found["tasks"]]
    assert given == [tuple(cores) for _, cores in found["tasks"]]
    assert all(len(cores) == 4 for cores in given)
    assert sorted(core for cores in given for core in cores) == list(range(64))
    visible, count = found["torch"]
    assert len(parse_cores(visible)) == count == 4


@needs_namespace
def test_ray_finds_the_cores_of_a_smaller_instance():
    assert ray("trn1.32xlarge", 0) == {"cores": 32, "tasks": [], "torch": None}

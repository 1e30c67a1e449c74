"""Ray on one machine: the cores that it finds, and what its tasks get; prints JSON.

python ray_program.py TASKS CORES
"""

import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

import ray

WAIT_S = 100.0


@ray.remote(num_cpus=0)
def own_cores(number, tasks, folder):
    """Cores that Ray gave to this task, and those of trnsim's device, once all tasks run."""
    from trnsim.device.watch import own_cores as cores_of_the_device

    (folder / str(number)).touch()
    until = time.monotonic() + WAIT_S
    while len(started := list(folder.iterdir())) < tasks:
        if time.monotonic() > until:
            raise TimeoutError(f"{len(started)} of {tasks} tasks run")
        time.sleep(0.05)
    return os.environ["NEURON_RT_VISIBLE_CORES"], cores_of_the_device()


@ray.remote(num_cpus=0)
def device_count():
    """PyTorch's devices in a task."""
    import torch

    return os.environ["NEURON_RT_VISIBLE_CORES"], torch.neuron.device_count()


def main(tasks, cores):
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # short paths
        ray.init(
            num_cpus=2,
            object_store_memory=80 << 20,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
            _temp_dir=f"{folder}/ray",
        )
        started = Path(folder) / "started"
        started.mkdir()
        found = ray.cluster_resources().get("neuron_cores", 0)
        task = own_cores.options(resources={"neuron_cores": cores})
        given = ray.get([task.remote(one, tasks, started) for one in range(tasks)])
        alone = device_count.options(resources={"neuron_cores": cores})
        counted = ray.get(alone.remote()) if tasks else None
        ray.shutdown()
    print(json.dumps({"cores": found, "tasks": given, "torch": counted}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

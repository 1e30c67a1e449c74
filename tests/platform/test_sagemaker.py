"""SageMaker's training toolkit, which counts cores by neuron-ls.

It takes trn2.48xlarge to have 64 cores without asking, so other instances are tested.
"""

import json
import os

import pytest
from instance_shells import needs_namespace, shell

from trnsim.instance.model import instance_model

TRAIN = """
import json, os
names = ("SM_NUM_NEURONS", "SM_CURRENT_INSTANCE_TYPE")
print("trained", json.dumps({name: os.environ[name] for name in names}))
"""
"""What a user would train: it prints what the toolkit has told it."""


def job(folder, instance):
    """The folder of a training job as SageMaker lays it out in a container."""
    config = folder / "input" / "config"
    config.mkdir(parents=True)
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    group = {"instance_group_name": "one", "instance_type": instance, "hosts": ["localhost"]}
    files = {
        "hyperparameters": {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": str(code),
        },
        "resourceconfig": {
            "current_host": "localhost",
            "hosts": ["localhost"],
            "current_instance_type": instance,
            "current_group_name": "one",
            "instance_groups": [group],
            "network_interface_name": "lo",
        },
        "inputdataconfig": {},
    }
    for name, text in files.items():
        (config / f"{name}.json").write_text(json.dumps(text))
    return folder


@needs_namespace
@pytest.mark.parametrize(
    ("instance", "cores"),
    [("trn1.32xlarge", 32), ("trn2.3xlarge", instance_model("trn2.3xlarge").cores)],
)
def test_a_training_job_is_told_its_cores(instance, cores, tmp_path):
    folder = job(tmp_path / "ml", f"ml.{instance}")
    done = shell(
        "train",
        options=("--instance", instance),
        cwd=tmp_path,
        env=os.environ | {"SAGEMAKER_BASE_DIR": str(folder), "AWS_DEFAULT_REGION": "us-east-1"},
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("trained "))
    told = json.loads(line.removeprefix("trained "))
    assert told == {"SM_NUM_NEURONS": str(cores), "SM_CURRENT_INSTANCE_TYPE": f"ml.{instance}"}

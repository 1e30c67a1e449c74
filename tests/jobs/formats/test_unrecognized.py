import json
from dataclasses import replace

import pytest
import yaml

from trnsim.errors import BadInput
from trnsim.jobs.field_types import field_table
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.formats.unrecognized import _VERSIONS
from trnsim.jobs.job import Job, JobKind, Role

POD = {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "i"}]}}


@pytest.mark.parametrize(
    ("document", "line", "why", "fix"),
    [
        (
            {"apiversion": "v1", "kind": "Pod"},
            2,
            "apiversion is no field; apiVersion is",
            "apiVers",
        ),
        ({"apiVersion": "v1", "kind": "pod"}, 3, "kind is 'pod'; legal: Pod, Deplo", "kind: Pod"),
        ({"apiVersion": "v1", "Kind": "Pod"}, 3, "Kind is no field; kind is", "rename it to kind"),
        ({"kind": "Job"}, 2, "kind Job without apiVersion", "add apiVersion: batch/v1"),
        (
            {"apiVersion": "batch/v1", "kind": "PyTorchJob"},
            *(2, "apiVersion is 'batch/v1'; a PyTorchJob is of kubeflow.org/v1", "kubeflow.org/v1"),
        ),
        ({"apiVersion": "v1", "kind": "Service"}, 3, "kind is 'Service'; legal: Pod", "a workload"),
        ({"jobDefinitionName": "a"}, 1, "a Batch job definition has type or cont", "add contain"),
        (
            {"jobDefinitionName": "a", "containerPropertys": {}},
            *(3, "containerPropertys is no field; containerProperties is", "containerProperties"),
        ),
        (
            {"jobDefinition_name": "a", "type": "container"},
            *(2, "jobDefinition_name is no field; jobDefinitionName is", "jobDefinitionName"),
        ),
        ({"family": "a", "containers": []}, 1, "an ECS task definition has containerD", "add cont"),
        ({"containerDefinition": []}, 2, "containerDefinition is no field", "containerDefinitions"),
        ({"TrainingJobName": "a"}, 1, "a SageMaker training job has Alg", "add ResourceConfig"),
        ({"EndpointConfigName": "a"}, 1, "has ProductionVariants", "add ProductionVariants"),
        (
            {"Region": "r", "Scheduling": {"SlurmQueue": []}},
            *(4, "Scheduling.SlurmQueue is no field; SlurmQueues is", "rename it to SlurmQueues"),
        ),
        ({"Schedulings": {"SlurmQueues": []}}, 2, "Schedulings is no field", "to Scheduling"),
        (
            {"trainer": {}, "distributed_strategie": {}},
            *(3, "distributed_strategie is no field; distributed_strategy", "distributed_strategy"),
        ),
        ({"a": 1}, 1, "no spec of a job; legal: ", "trnsim job --help"),
        ({"kind": "{{ kind }}"}, 1, "no spec of a job; legal: ", "trnsim job --help"),
    ],
)
def test_what_is_almost_a_spec_is_named(tmp_path, document, line, why, fix):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document | (POD if "kind" in document else {}), indent=1))
    with pytest.raises(BadInput) as error:
        read_specs(path)
    assert why in error.value.reason
    assert error.value.reason.startswith(f"{path}:{line}: ")
    assert fix in error.value.fix


def test_the_fault_of_another_document_is_told_before_a_kind_that_runs_no_job(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\n---\napiVersion: batch/v1\nkind: Jobs\n")
    with pytest.raises(BadInput, match=r"a.yaml:5: kind is 'Jobs'; legal: ") as error:
        read_specs(path)
    assert error.value.fix == "write kind: Job"


def test_versions_are_those_of_the_definitions_and_of_written_manifests():
    shapes = field_table("kubernetes").shapes
    for kind, version in _VERSIONS.items():
        assert shapes[kind]["apiVersion"] in ("string", f"={version}")
    role = Role(devices=16, image="i", command=("torchrun", "a.py"), entry_words=2)
    for name, known in FORMATS.items():
        if known.is_manifest and name != "batch-eks":
            kind = JobKind.SERVING if name == "leaderworkerset" else JobKind.TRAINING
            roles = (role, replace(role, name="worker")) if name == "mpijob" else (role,)
            text = write_spec(Job(name="a", kind=kind, roles=roles), name)
            document = next(row for row in yaml.safe_load_all(text) if row["kind"] in _VERSIONS)
            assert document["apiVersion"] == _VERSIONS[document["kind"]]

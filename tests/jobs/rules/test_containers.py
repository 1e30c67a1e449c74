"""Each rule: a spec that breaks it, at its line, and a legal twin without a finding."""

import json

import botocore.session
import pytest

from trnsim.errors import SourceLine
from trnsim.jobs.formats import FORMATS, read_specs
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.containers import _HOSTING_TYPES, _TRAINING_TYPES, RULES
from trnsim.jobs.spec import JobSpec, TemplateValue
from trnsim.reader import FileContent
from trnsim.reader.json_text import parse_json

MEMLOCK = {"name": "memlock", "softLimit": -1, "hardLimit": -1}
EFA = {"devices": [{"hostPath": "/dev/infiniband/uverbs0"}]}
SIZES = {"memory": 4096, "vcpus": 4}
SIZE = {"memory": 4096}
NEURON = {"devices": [{"hostPath": "/dev/neuron0"}, {"hostPath": "/dev/neuron15"}]}


def found(document, name):
    """Rules and lines of the findings in a document of a format."""
    root = FileContent("a.json", parse_json(json.dumps(document, indent=1))).root
    (place,) = FORMATS[name].places(root)
    return [(row.rule, row.place.line) for row in findings(FORMATS[name].read(place), RULES)]


def batch(instance="trn1.32xlarge", **container):
    container = {"image": "i", "instanceType": instance} | container
    container |= {name: size for name, size in SIZES.items() if name not in container}
    ranges = [{"targetNodes": "0:", "container": container}]
    properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": ranges}
    return {"jobDefinitionName": "a", "type": "multinode", "nodeProperties": properties}


def ecs(instance="trn1.32xlarge", **container):
    expression = f"attribute:ecs.instance-type == {instance}"
    return {
        "family": "a",
        "placementConstraints": [{"type": "memberOf", "expression": expression}],
        "containerDefinitions": [{"name": "c", "image": "i"} | container | SIZE | container],
    }


def training(instance, **fields):
    return {"TrainingJobName": "a", "ResourceConfig": {"InstanceType": instance}} | fields


def endpoint(instance):
    return {"EndpointConfigName": "a", "ProductionVariants": [{"InstanceType": instance}]}


def variables(**pairs):
    return [{"name": name, "value": value} for name, value in pairs.items()]


@pytest.mark.parametrize(
    ("make", "name", "line", "fields"),
    [
        (batch, "batch", 16, {}),
        (ecs, "ecs", 16, {}),
        (ecs, "ecs", 16, {"ulimits": [MEMLOCK | {"softLimit": 64}]}),
    ],
)
def test_efa_needs_locked_memory(make, name, line, fields):
    assert found(make(linuxParameters=EFA, **fields), name) == [("efa-locked-memory", line)]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (batch(linuxParameters=EFA, ulimits=[MEMLOCK]), "batch"),
        (batch(linuxParameters=EFA, privileged=True), "batch"),
        (batch(linuxParameters=NEURON), "batch"),
        (ecs(linuxParameters=EFA, ulimits=[MEMLOCK]), "ecs"),
        (ecs(linuxParameters=EFA | {"capabilities": {"add": ["IPC_LOCK"]}}), "ecs"),
        (ecs(linuxParameters=EFA | {"capabilities": {"add": ["ALL"]}}), "ecs"),
    ],
)
def test_locked_memory_suffices_for_efa(document, name):
    assert found(document, name) == []


def test_an_efa_device_has_all_permissions():
    rows = [{"hostPath": "/dev/infiniband/uverbs0", "permissions": ["READ", "WRITE"]}]
    bad = batch(linuxParameters={"devices": rows}, ulimits=[MEMLOCK])
    assert found(bad, "batch") == [("efa-permissions", 16)]
    rows[0]["permissions"].append("MKNOD")
    assert found(batch(linuxParameters={"devices": rows}, ulimits=[MEMLOCK]), "batch") == []
    rows = [{"hostPath": "/dev/neuron0", "permissions": ["READ"]}]
    assert found(batch(linuxParameters={"devices": rows}), "batch") == []


def pod(kept_fields=(), templates=(), **fields):
    """The findings in a pod, whose fields have lines of their own."""
    names = [f"roles.0.{name}" for name in fields]
    names += [f"roles.0.environment.{name}" for name, _ in fields.get("environment", ())]
    lines = {name: SourceLine("a", line) for line, name in enumerate(names, 2)}
    job = Job(roles=(Role(**fields),), kept_fields=kept_fields)
    spec = JobSpec("pod", job, SourceLine("a", 1), lines, templates)
    return [(row.rule, row.place.line) for row in findings(spec, RULES)]


HUGE = (("FI_EFA_USE_HUGE_PAGE", "1"),)


def test_efa_that_uses_huge_pages_has_some():
    assert pod(efa=1, environment=HUGE) == [("efa-huge-pages", 4)]
    assert pod(efa=1, environment=HUGE, hugepages_bytes=2**30, vcpus=1.0) == []
    assert pod(efa=1) == []
    assert pod(environment=HUGE) == []


def test_huge_pages_stand_with_memory_or_vcpus():
    assert pod(hugepages_bytes=2**30) == [("huge-pages-alone", 2)]
    assert pod(hugepages_bytes=2**30, memory_bytes=2**30) == []
    assert pod(hugepages_bytes=2**30, vcpus=0.5) == []
    template = TemplateValue("roles.0.memory_bytes", "$M", SourceLine("a", 1))
    assert pod(hugepages_bytes=2**30, templates=(template,)) == []


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
  - name: c
    image: i
    command: [train.py, --num-workers, "2"]
    env:
    - name: FI_EFA_USE_HUGE_PAGE
      value: "1"
    resources:
      limits: {{{limits}}}
{mounts}"""
SHM = """\
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""


@pytest.mark.parametrize(
    ("limits", "mounts", "rows"),
    [
        ("vpc.amazonaws.com/efa: 1", "", [("shared-memory", 8), ("efa-huge-pages", 11)]),
        ("vpc.amazonaws.com/efa: 1", SHM, [("efa-huge-pages", 11)]),
        ("hugepages-2Mi: 4Mi", SHM, [("huge-pages-alone", 13)]),
        ("vpc.amazonaws.com/efa: 1, hugepages-2Mi: 4Mi, memory: 1Gi", SHM, []),
    ],
)
def test_a_manifest_of_a_pod(tmp_path, limits, mounts, rows):
    path = tmp_path / "pod.yaml"
    path.write_text(MANIFEST.format(limits=limits, mounts=mounts))
    (spec,) = read_specs(path)
    assert [(row.rule, row.place.line) for row in findings(spec, RULES)] == rows


LOADER = ("train.py", "--num_workers", "4")


def test_workers_of_a_data_loader_share_memory():
    assert found(batch(command=LOADER), "batch") == [("shared-memory", 15)]
    assert found(ecs(command=LOADER), "ecs") == [("shared-memory", 15)]
    assert pod(command=LOADER) == [("shared-memory", 2)]
    small = {"sharedMemorySize": 64}
    assert found(batch(command=LOADER, linuxParameters=small), "batch") == [("shared-memory", 19)]


def test_shared_memory_suffices_for_workers():
    large = {"sharedMemorySize": 65}
    assert found(batch(command=LOADER, linuxParameters=large), "batch") == []
    assert found(ecs(command=LOADER) | {"ipcMode": "host"}, "ecs") == []
    assert found(ecs(command=["train.py", "--num-workers", "0"]), "ecs") == []
    assert found(ecs(command=["train.py", "--num-workers", "$N"]), "ecs") == []
    assert pod(command=LOADER, shm_bytes=2**30) == []
    assert pod(command=LOADER, kept_fields=(KeptField(("mountPath",), "/dev/shm"),)) == []  # noqa: S108
    template = TemplateValue("roles.0.shm_bytes", "$M", SourceLine("a", 1))
    assert pod(command=LOADER, templates=(template,)) == []


def test_a_container_of_docker_states_its_size():
    document = batch()
    container = document["nodeProperties"]["nodeRangeProperties"][0]["container"]
    del container["memory"]
    assert found(document, "batch") == [("container-size", 10)]
    container["resourceRequirements"] = [{"type": "MEMORY", "value": "4"}]
    assert found(document, "batch") == []
    del container["vcpus"], container["resourceRequirements"]
    assert found(document, "batch") == [("container-size", 10)] * 2
    container |= {"memory": "$MEMORY", "vcpus": "${VCPUS}"}
    assert found(document, "batch") == []
    document = ecs()
    (container,) = document["containerDefinitions"]
    del container["memory"]
    assert found(document, "ecs") == [("container-size", 10)]
    assert found(document | {"memory": "2048"}, "ecs") == []
    assert found(document | {"memory": "${SIZE}"}, "ecs") == []
    container["memoryReservation"] = 128
    assert found(document, "ecs") == []


def test_an_instance_has_its_devices():
    assert found(batch("trn1.2xlarge", linuxParameters=NEURON), "batch") == [("device-number", 19)]
    assert found(ecs("inf2.48xlarge", linuxParameters=NEURON), "ecs") == [("device-number", 19)]
    assert found(batch("trn1.32xlarge", linuxParameters=NEURON), "batch") == []
    assert found(ecs("unheard.large", linuxParameters=NEURON), "ecs") == []
    assert found(ecs("p5.48xlarge", linuxParameters=NEURON), "ecs") == []


SETTING = {"environment": variables(NEURON_RT_NUM_CORES="2")}


def test_a_container_that_sets_the_runtime_sees_devices():
    assert found(batch(**SETTING), "batch") == [("device-unmapped", 16)]
    assert found(ecs(**SETTING), "ecs") == [("device-unmapped", 16)]
    assert found(batch(**SETTING, linuxParameters=NEURON), "batch") == []
    assert found(ecs(**SETTING, privileged=True), "ecs") == []
    every = variables(NEURON_RT_NUM_CORES="2", AWS_NEURON_VISIBLE_DEVICES="ALL")
    assert found(ecs(environment=every), "ecs") == []
    managed = [{"type": "NeuronDevice", "value": "ALL"}]
    assert found(ecs(**SETTING, resourceRequirements=managed), "ecs") == []
    assert pod(environment=(("NEURON_RT_NUM_CORES", "2"),)) == []


def test_memory_is_that_of_the_instance():
    most = 512 * 1024
    assert found(batch(memory=most), "batch") == [("instance-memory", 13)]
    assert found(ecs(memory=most), "ecs") == [("instance-memory", 13)]
    assert found(batch(memory=most - 1), "batch") == []
    assert found(ecs("unheard.large", memory=most), "ecs") == []
    assert pod(instance="trn1.32xlarge", memory_bytes=2**39) == [("instance-memory", 3)]
    spec = JobSpec(
        "sbatch",
        Job(roles=(Role(instance="trn1.32xlarge", memory_bytes=2**39),)),
        SourceLine("a", 1),
    )
    assert findings(spec, RULES) == []


def test_containers_of_a_task_share_the_instance():
    document = ecs(memory=300 * 1024, cpu=65 * 1024, linuxParameters=NEURON)
    document["containerDefinitions"] *= 2
    assert found(document, "ecs") == [("instance-memory", 29), ("instance-vcpus", 30)]


def test_vcpus_are_those_of_the_instance():
    assert found(batch(vcpus=129), "batch") == [("instance-vcpus", 13)]
    assert found(ecs(cpu=128 * 1024 + 1), "ecs") == [("instance-vcpus", 13)]
    assert found(batch(vcpus=128), "batch") == []
    assert found(ecs(cpu=128 * 1024), "ecs") == []


def test_variables_of_batch_are_its_own():
    bad = batch(environment=variables(AWS_BATCH_JOB_ID="1"))
    assert found(bad, "batch") == [("batch-variable", 15)]
    assert found(batch(environment=variables(AWS_REGION="1")), "batch") == []
    assert found(ecs(environment=variables(AWS_BATCH_JOB_ID="1")), "ecs") == []


@pytest.mark.parametrize("kind", ["trn2.3xlarge", "inf2.xlarge", "trn9.1xlarge", "trn1.1xlarge"])
def test_a_training_job_has_a_type_of_sagemaker(kind):
    assert found(training(f"ml.{kind}"), "sagemaker-training") == [("sagemaker-instance", 4)]


@pytest.mark.parametrize("kind", ["trn2.3xlarge", "trn2u.48xlarge", "inf3.xlarge"])
def test_an_endpoint_has_a_type_of_sagemaker(kind):
    assert found(endpoint(f"ml.{kind}"), "sagemaker-endpoint") == [("sagemaker-instance", 5)]


def test_types_of_sagemaker():
    for kind in (*_TRAINING_TYPES, "p5.48xlarge", "m5.large"):
        assert found(training(f"ml.{kind}"), "sagemaker-training") == []
    for kind in (*_HOSTING_TYPES, "g5.xlarge"):
        assert found(endpoint(f"ml.{kind}"), "sagemaker-endpoint") == []
    assert found(training("$TYPE"), "sagemaker-training") == []


def test_types_are_those_of_the_installed_api():
    model = botocore.session.get_session().get_service_model("sagemaker")
    types = {
        "TrainingInstanceType": _TRAINING_TYPES,
        "ProductionVariantInstanceType": _HOSTING_TYPES,
    }
    for shape, own in types.items():
        names = {name for name in model.shape_for(shape).enum if name[3:6] in ("trn", "inf")}
        assert names == {f"ml.{name}" for name in own}


def test_capacity_blocks_are_sold_in_regions():
    arn = "arn:aws:sagemaker:{}:111122223333:training-plan/mine"
    for region, rows in (("eu-west-1", [("instance-region", 5)]), ("us-east-2", [])):
        resources = {"InstanceType": "ml.trn2.48xlarge", "TrainingPlanArn": arn.format(region)}
        document = {"TrainingJobName": "a", "ResourceConfig": resources}
        assert found(document, "sagemaker-training") == rows
    job = Job(region="eu-west-1", roles=(Role(instance="trn2.3xlarge"),))
    spec = JobSpec("parallelcluster", job, SourceLine("a", 1), {"region": SourceLine("a", 3)})
    (finding,) = findings(spec, RULES)
    assert finding.place.line == 3
    assert "capacity blocks are sold in ap-southeast-4 and sa-east-1" in finding.reason
    for instance in ("trn1.32xlarge", "p5.48xlarge", "unheard.large", "trn2u.48xlarge"):
        assert findings(spec.with_job(roles=(Role(instance=instance),)), RULES) == []

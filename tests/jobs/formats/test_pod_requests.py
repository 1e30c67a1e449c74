import pytest
import yaml

from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.price import price_job
from trnsim.jobs.rules import findings

NEURON, CORE, GPU = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "nvidia.com/gpu"


def container(name, kind="limits", **amounts):
    names = {"devices": NEURON, "cores": CORE, "gpus": GPU}
    resources = {kind: {names[field]: amount for field, amount in amounts.items()}}
    return {"name": name, "image": "a", "resources": resources}


def sidecar(**amounts):
    return {**container("side", **amounts), "restartPolicy": "Always"}


def deployment(tmp_path, containers, init_containers=(), instance="trn1.32xlarge", replicas=4):
    pod = {
        "nodeSelector": {"node.kubernetes.io/instance-type": instance},
        "initContainers": list(init_containers),
        "containers": list(containers),
    }
    metadata = {"labels": {"app": "a"}}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": metadata, "spec": pod},
        },
    }
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return read_specs(file)[0]


MAIN = container("main", devices=4)


@pytest.mark.parametrize(
    ("init_containers", "others", "requests"),
    [
        ([], [], ()),
        ([container("warm", devices=4)], [], ()),
        ([container("warm", devices=8)], [], (("devices", 8),)),
        ([sidecar(devices=4)], [], (("devices", 8),)),
        ([sidecar(devices=4), container("warm", devices=4)], [], (("devices", 8),)),
        ([sidecar(devices=4), container("warm", devices=8)], [], (("devices", 12),)),
        ([container("warm", devices=8), sidecar(devices=4)], [], (("devices", 8),)),
        ([sidecar(devices=2), sidecar(devices="2")], [], (("devices", 8),)),
        ([], [container("b", devices=2)], (("devices", 6),)),
        ([], [container("b", "requests", devices=2)], (("devices", 6),)),
        ([sidecar(cores=2)], [], (("cores", 2),)),
        ([sidecar(devices="${N}")], [], ()),
    ],
)
def test_a_pod_requests_what_its_containers_have_at_once(
    tmp_path, init_containers, others, requests
):
    spec = deployment(tmp_path, [MAIN, *others], init_containers)
    (role,) = spec.job.roles
    assert (role.devices, role.pod_requests) == (4, requests)
    text = write_spec(spec.job, "pod")
    file = tmp_path / "written.yaml"
    file.write_text(text)
    assert read_specs(file)[0].job == spec.job


@pytest.mark.parametrize(
    ("containers", "init_containers", "instance", "instances"),
    [
        ([MAIN], [], "trn1.32xlarge", 1),  # 4 pods of 4 of 16 devices
        ([MAIN], [sidecar(devices=4)], "trn1.32xlarge", 2),
        ([MAIN], [sidecar(cores=8)], "trn1.32xlarge", 2),  # 8 cores are 4 devices
        ([MAIN], [container("warm", devices=8)], "trn1.32xlarge", 2),
        ([MAIN, container("b", devices=12)], [], "trn1.32xlarge", 4),
        ([container("main")], [sidecar(devices=8)], "trn1.32xlarge", 2),
        ([container("main", gpus=2)], [sidecar(gpus=2)], "p5.48xlarge", 2),
    ],
)
def test_pods_share_instances_by_all_that_they_request(
    tmp_path, containers, init_containers, instance, instances
):
    job = deployment(tmp_path, containers, init_containers, instance).job
    (price,) = price_job(job).roles
    assert price.instances == instances


def test_numbers_of_other_containers_are_understood_and_checked(tmp_path):
    spec = deployment(tmp_path, [MAIN], [sidecar(devices=16)])
    assert not [field for field in spec.unknown_fields if NEURON in field.keys]
    reasons = [each.reason for each in findings(spec)]
    told = "a replica asks for 20 Neuron devices in all its containers; trn1.32xlarge has 16"
    assert told in reasons

from dataclasses import replace

import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import Parallelism

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: finetune, labels: {team: a}, annotations: {trnsim/model: llama-3.1-8b}}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 7200
  nodeSelector:
    node.kubernetes.io/instance-type: trn2.48xlarge
    topology.kubernetes.io/region: us-east-2
    eks.amazonaws.com/capacityType: CAPACITY_BLOCK
  containers:
    - name: log
      image: busybox
    - name: train
      image: me/train:1
      command: [torchrun, --nproc-per-node=64]
      args: [train.py, --tp, "8"]
      env:
        - {name: FI_PROVIDER, value: efa}
        - name: HOST
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        - {name: BUCKET, value: "${BUCKET}"}
      resources:
        requests: {cpu: 1500m, memory: 64Gi}
        limits:
          aws.amazon.com/neuron: 16
          vpc.amazonaws.com/efa: "16"
          hugepages-2Mi: 5120Mi
          memory: 128Gi
      securityContext: {privileged: false, capabilities: {add: [CAP_IPC_LOCK], drop: [ALL]}}
      volumeMounts:
        - {name: data, mountPath: /fsx}
        - {name: dshm, mountPath: /dev/shm}
  volumes:
    - {name: dshm, emptyDir: {medium: Memory, sizeLimit: 256Gi}}
    - {name: data, persistentVolumeClaim: {claimName: fsx}}
"""
SERVER = """\
apiVersion: v1
kind: Service
metadata: {name: chat}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: vllm
          image: vllm
          args: [--model, llama]
          resources: {limits: {nvidia.com/gpu: 8}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: etcd}
spec: {template: {spec: {containers: [{name: etcd, image: etcd}]}}}
"""


def test_a_pod_is_read_whole(tmp_path):
    spec = read("pod", POD, tmp_path)
    role = Role(
        name="train",
        instance="trn2.48xlarge",
        processes=64,
        devices=16,
        efa=16,
        vcpus=1.5,
        memory_bytes=64 << 30,
        hugepages_bytes=5120 << 20,
        shm_bytes=256 << 30,
        capabilities=("IPC_LOCK",),
        image="me/train:1",
        environment=(("FI_PROVIDER", "efa"), ("BUCKET", "${BUCKET}")),
        command=("torchrun", "--nproc-per-node=64", "train.py", "--tp", "8"),
        entry_words=2,
    )
    assert spec.job.roles == (role,)
    assert replace(spec.job, roles=(), kept_fields=()) == Job(
        name="finetune",
        model="llama-3.1-8b",
        region="us-east-2",
        purchase="capacity_block",
        time_limit_s=7200,
    )
    container = "spec.containers[1]"
    assert sorted(kept.name for kept in spec.job.kept_fields) == [
        "metadata.labels.team",
        "spec.containers[0].image",
        "spec.containers[0].name",
        f"{container}.env[1].name",
        f"{container}.env[1].valueFrom.fieldRef.fieldPath",
        f"{container}.resources.limits.memory",
        f"{container}.securityContext.capabilities.drop[0]",
        f"{container}.volumeMounts[0].mountPath",
        f"{container}.volumeMounts[0].name",
        "spec.volumes[1].name",
        "spec.volumes[1].persistentVolumeClaim.claimName",
    ]
    assert [value.field for value in spec.templates] == [
        "roles.0.environment.HOST",
        "roles.0.environment.BUCKET",
    ]


def test_fields_of_a_pod_have_their_lines(tmp_path):
    spec = read("pod", POD, tmp_path)
    lines = {
        "name": 3,
        "time_limit_s": 6,
        "roles.0.instance": 8,
        "region": 9,
        "purchase": 10,
        "roles.0.name": 14,
        "roles.0.command": 16,
        "roles.0.environment.FI_PROVIDER": 19,
        "roles.0.vcpus": 24,
        "roles.0.devices": 26,
        "roles.0.hugepages_bytes": 28,
        "roles.0.shm_bytes": 35,
    }
    assert {name: spec.line_of(name).line for name in lines} == lines


def test_a_pod_is_written_as_it_was_read(tmp_path):
    spec = read("pod", POD, tmp_path)
    text = write_spec(spec.job, "pod")
    assert read("pod", text, tmp_path).job == spec.job
    assert text.startswith("apiVersion: v1\nkind: Pod\nmetadata:\n  name: finetune\n")


def test_a_server_is_read_and_services_beside_it_are_passed_over(tmp_path):
    path = tmp_path / "server.yaml"
    path.write_text(SERVER)
    (spec,) = read_specs(path)
    assert spec.job.kind is JobKind.SERVING
    (role,) = spec.job.roles
    assert (role.replicas, role.gpus, role.command, role.entry_words) == (
        2,
        8,
        ("--model", "llama"),
        0,
    )
    assert (spec.start.line, spec.line_of("roles.0.replicas").line, spec.job.kept_fields) == (
        5,
        9,
        (),
    )
    assert read("pod", write_spec(spec.job, "pod"), tmp_path).job == spec.job


def test_a_pod_that_starts_anew_is_a_server_and_stays_a_pod(tmp_path):
    text = POD.replace("  restartPolicy: Never\n", "")
    spec = read("pod", text, tmp_path)
    assert spec.job.kind is JobKind.SERVING
    written = write_spec(spec.job, "pod")
    assert "kind: Pod" in written
    assert "restartPolicy" not in written
    assert read("pod", written, tmp_path).job == spec.job


def test_a_template_fills_in_what_is_written_back(tmp_path):
    text = SERVER.replace("replicas: 2", "replicas: ${N}").replace("gpu: 8", 'gpu: "{{ .gpus }}"')
    path = tmp_path / "server.yaml"
    path.write_text(text)
    (spec,) = read_specs(path)
    (role,) = spec.job.roles
    assert (role.replicas, role.gpus) == (None, None)
    assert [(value.field, value.text, value.place.line) for value in spec.templates] == [
        ("roles.0.replicas", "${N}", 9),
        ("roles.0.gpus", "{{ .gpus }}", 18),
    ]
    written = write_spec(spec.job, "pod")
    assert "replicas: ${N}" in written
    assert read("pod", written, tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("spec:\n", "spec: 5\nx:\n", "4: spec is 5; legal: a mapping"),
        ("  containers:\n", "  other:\n", "4: spec.containers is missing; legal: a list of one"),
        ("  containers:\n", "  containers: []\n  other:\n", r"11: spec.containers is \[\]; legal"),
        ("    - name: log\n      image: busybox\n", "    - 5\n", r"12: spec.containers\[0\] is 5"),
        ("- {name: FI_PROVIDER, value: efa}", "- {value: efa}", r"env\[0\].name is missing"),
        ("- {name: FI_PROVIDER, value: efa}", "- efa", r"19: .*env\[0\] is 'efa'; legal"),
        ("value: efa}", "value: [efa]}", r"19: .*env\[0\].value is \['efa'\]; legal: text"),
        ("neuron: 16", "neuron: all", "26: .*neuron is 'all'; legal: a quantity of Kubernetes"),
        ("neuron: 16", "neuron: 500m", "26: .*neuron is '500m'; legal: a whole number"),
        ("neuron: 16", "neuron: -1", "26: .*neuron is -1; legal: a quantity"),
        ("neuron: 16", "neuron: 1" + "0" * 25, "26: .*neuron is 1.*; legal: a quantity"),
        ("cpu: 1500m", "cpu: [1]", r"24: .*cpu is \[1\]; legal: a quantity"),
        ("memory: 64Gi", "memory: 64GB", "24: .*memory is '64GB'; legal: a quantity"),
        ('args: [train.py, --tp, "8"]', "args: 8", "17: .*args is 8; legal: a list of texts"),
        ("[torchrun, --", "[[torchrun], --", r"16: .*command is .*; legal: a list of texts"),
        ("7200", "soon", "6: spec.activeDeadlineSeconds is 'soon'; legal: a whole number"),
        ("7200", "0", "6: spec.activeDeadlineSeconds is 0; legal: a whole number from 1"),
        ("7200", "true", "6: spec.activeDeadlineSeconds is True; legal: a whole number"),
        ("requests: {cpu: 1500m, memory: 64Gi}", "requests: 3", "24: .*requests is 3; legal"),
    ],
)  # fmt: skip
def test_a_malformed_pod_is_refused_at_its_line(tmp_path, before, after, why):
    assert before in POD
    with pytest.raises(BadInput, match=why):
        read("pod", POD.replace(before, after), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "kind: [Pod]\napiVersion: v1\n",
        "kind: Pod\napiVersion: 1\n",
        "kind: Pod\n",
        "kind: Deployment\napiVersion: apps/v1\nspec: 5\n",
        "kind: Deployment\napiVersion: apps/v1\nspec: {template: {spec: {containers: [5]}}}\n",
        "kind: Deployment\napiVersion: apps/v1\nspec: {template: {spec: {containers: [a, 5]}}}\n",
        "kind: PodList\napiVersion: v1\n",
    ],
)
def test_other_documents_are_not_claimed(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(
        BadInput, match=r"no spec of a job|is of v1|kind Pod without apiVersion|'PodList'; legal"
    ):
        read_specs(path)


def test_a_repeated_anchor_is_read_as_its_value(tmp_path):
    text = POD.replace("labels: {team: a}", "labels: {team: &team train}").replace(
        "- name: train", "- name: *team"
    )
    assert read("pod", text, tmp_path).job.roles[0].name == "train"


def test_shared_memory_that_others_use_is_kept(tmp_path):
    text = POD.replace("image: busybox\n", "image: busybox\n      volumeMounts: [{name: dshm}]\n")
    spec = read("pod", text, tmp_path)
    assert spec.job.roles[0].shm_bytes is None
    assert read("pod", write_spec(spec.job, "pod"), tmp_path).job == spec.job


@pytest.mark.parametrize("operator", ["In", "Exists"])
def test_an_affinity_to_one_type_states_the_instance(tmp_path, operator):
    before = "  nodeSelector:\n    node.kubernetes.io/instance-type: trn2.48xlarge\n"
    after = f"""\
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {{key: node.kubernetes.io/instance-type, operator: {operator}, values: [trn1.32xlarge]}}
  nodeSelector:
"""
    spec = read("pod", POD.replace(before, after), tmp_path)
    name = "trn1.32xlarge" if operator == "In" else ""
    assert spec.job.roles[0].instance == name
    assert read("pod", write_spec(spec.job, "pod"), tmp_path).job == spec.job


ONE = Role(name="a", image="i")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(), "the job has 0 roles; a Pod has one role"),
        (Job(roles=(ONE, ONE)), "the job has 2 roles; a Pod has one role"),
        (Job(roles=(ONE,), copies=2), "the job has 2 copies; a Pod is one job"),
        (Job(roles=(ONE,), parallelism=Parallelism(tensor=8)), "no field for the job's para"),
        (Job(roles=(ONE,), config=(("num_hidden_layers", 2),)), "no field for the job's config"),
        (
            Job(roles=(replace(ONE, is_exclusive=True, devices=4, instance="trn1.32xlarge"),)),
            "has trn1.32xlarge for itself and 4 of its 16 devices",
        ),
        (Job(roles=(ONE,), kind=JobKind.SERVING), "a Deployment without them is a service"),
        (Job(roles=(ONE,), kind=JobKind.CLUSTER), "the job is a cluster that waits for jobs"),
        (Job(roles=(ONE,), time_limit_s=1.5), "time_limit_s is 1.5; legal: whole seconds"),
        (Job(roles=(replace(ONE, replicas=2),)), "role 'a': 2 replicas; a Pod is one"),
        (Job(roles=(replace(ONE, device_indexes=(3,)),)), "devices 3 are named; the device plugin"),
        (Job(roles=(replace(ONE, least_replicas=1),)), "from 1 to 1 replicas; a Pod has one"),
        (Job(roles=(replace(ONE, processes=2),)), "2 processes; a Pod starts one"),
        (Job(roles=(replace(ONE, vcpus=1 / 3),)), "vCPUs; legal: thousandths"),
        (Job(roles=(replace(ONE, hugepages_bytes=1),)), "huge pages without memory or vCPUs"),
        (Job(roles=(replace(ONE, is_exclusive=True),)), "of a type that is not stated"),
        (Job(roles=(ONE,), purchase="reserved"), "purchase is 'reserved'; legal: on_demand, spot"),
        (
            Job(roles=(replace(ONE, gpus=1, replicas=None),), kind=JobKind.SERVING),
            "the number of replicas is not stated",
        ),
        (
            Job(roles=(replace(ONE, gpus=1, replicas=2**31),), kind=JobKind.SERVING),
            "2,147,483,648 replicas; at most 2,147,483,647",
        ),
        (
            Job(roles=(ONE,), kind=JobKind.SERVING, time_limit_s=1),
            "a Deployment has no time limit, and the job has one",
        ),
    ],
)  # fmt: skip
def test_a_job_that_no_pod_expresses_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "pod")


def test_an_instance_for_itself_is_all_of_its_accelerators(tmp_path):
    for instance, field, number in (("trn1.32xlarge", "devices", 16), ("p5.48xlarge", "gpus", 8)):
        job = Job(name="a", roles=(replace(ONE, instance=instance, is_exclusive=True),))
        (role,) = read("pod", write_spec(job, "pod"), tmp_path).job.roles
        assert getattr(role, field) == number


def test_names_are_in_letters_that_kubernetes_allows(tmp_path):
    job = Job(name="My Job_1", roles=(replace(ONE, name="Worker A", image=""),))
    spec = read("pod", write_spec(job, "pod"), tmp_path)
    assert (spec.job.name, spec.job.roles[0].name) == ("my-job-1", "worker-a")
    assert spec.job.roles[0].image == ""
    assert [value.text for value in spec.templates] == ["${IMAGE}"]


def test_unlimited_locked_memory_is_a_capability(tmp_path):
    job = Job(name="a", roles=(replace(ONE, is_memlock_unlimited=True),))
    (role,) = read("pod", write_spec(job, "pod"), tmp_path).job.roles
    assert role.capabilities == ("IPC_LOCK",)

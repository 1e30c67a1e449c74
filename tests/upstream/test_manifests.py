"""Manifests that are written, by the schemas of the operators' own CustomResourceDefinitions."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from trnsim.jobs.formats import write_spec

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "jobs" / "formats"))  # kubernetes_jobs.py, by its name
CHECKER = ROOT / ".venv-specs" / "bin" / "python"
KUBERAY = "kuberay feeaf72facab4881ba2b179248bb67315634e229 ray-operator/config/crd/bases"
DEFINITIONS = {
    "JobSet": "jobset 08dfbdfd682714a9ab929633eca8dc95315187e7 "
    "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    "PyTorchJob": "training-operator 6f74c7f6b2ed6c27aabd82d0a316b23f0646059c "
    "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
    "MPIJob": "mpi-operator caa3c47fc42eb762635f78045ec0fcd1a89eb038 "
    "manifests/base/kubeflow.org_mpijobs.yaml",
    "LeaderWorkerSet": "lws 060ab4da17eea1f0865fcbd3236bb1075e2cea32 "
    "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "RayJob": f"{KUBERAY}/ray.io_rayjobs.yaml",
    "RayCluster": f"{KUBERAY}/ray.io_rayclusters.yaml",
}
"""Clone, commit and file of each definition."""
CHECK = """
import json, sys
import jsonschema

def closed(schema):
    '''A schema that refuses unknown fields, as a strict request to Kubernetes does.'''
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(value) for name, value in schema.items()}
    is_open = inner.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in inner
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return inner | {"additionalProperties": False} if is_object and not is_open else inner

given = json.load(sys.stdin)
schemas = {
    kind: jsonschema.Draft7Validator(closed(each)) for kind, each in given["schemas"].items()
}
for document in given["documents"]:
    schemas[document["kind"]].validate(document)
"""


def schema(upstream, kind):
    """The schema of the stored version of a kind."""
    clone, commit, file = DEFINITIONS[kind].split()
    if not (upstream / clone).exists():
        pytest.skip(f"no clone of {clone} beside the others")
    command = ["git", "-C", str(upstream / clone), "show", f"{commit}:{file}"]
    stored = subprocess.run(command, check=True, capture_output=True).stdout
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load(stored, Loader=loader)  # noqa: S506  both are safe
    (version,) = [each for each in definition["spec"]["versions"] if each["storage"]]
    return version["schema"]["openAPIV3Schema"]


@pytest.mark.skipif(not CHECKER.exists(), reason="no .venv-specs: make .venv-specs/.made")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("jobset", ("JobSet",)),
        ("pytorchjob", ("PyTorchJob",)),
        ("mpijob", ("MPIJob",)),
        ("leaderworkerset", ("LeaderWorkerSet",)),
        ("rayjob", ("RayJob", "RayCluster")),
    ],
)
def test_an_operator_accepts_what_is_written(upstream, name, kinds):
    from kubernetes_jobs import JOBS  # noqa: PLC0415  its folder is added above

    documents = []

    @settings(max_examples=100)
    @given(JOBS[name])
    def collect(job):
        documents.append(yaml.safe_load(write_spec(job, name)))

    collect()
    schemas = {kind: schema(upstream, kind) for kind in kinds}
    answer = checked(schemas, documents)
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert {document["kind"] for document in documents} == set(kinds)
    refused = checked(
        schemas, [documents[0] | {"spec": documents[0]["spec"] | {"suspended": True}}]
    )
    assert "'suspended' was unexpected" in refused.stderr


def checked(schemas, documents):
    """The answer of the schemas about documents."""
    return subprocess.run(
        [CHECKER, "-c", CHECK],
        input=json.dumps({"schemas": schemas, "documents": documents}),
        text=True,
        capture_output=True,
        check=False,
    )


HYPERPOD = (
    "sagemaker-hyperpod-cli 011ca927123e02b35a399935bbb3ab1905fe33c7 "
    "src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py"
)
"""Clone, commit and file of HyperPod's own classes: no definition of the resource is published."""
CLASSES = {
    (): "_HyperPodPytorchJob",
    ("replicaSpecs",): "ReplicaSpec",
    ("runPolicy",): "RunPolicy",
    ("elasticPolicy",): "ElasticPolicy",
}


def test_a_hyperpod_job_has_the_fields_of_its_classes(upstream):
    """Their names, and that they are neither text nor a list where a number stands."""
    from kubernetes_jobs import JOBS  # noqa: PLC0415  its folder is added above

    clone, commit, file = HYPERPOD.split()
    if not (upstream / clone).exists():
        pytest.skip(f"no clone of {clone} beside the others")
    command = ["git", "-C", str(upstream / clone), "show", f"{commit}:{file}"]
    source = ast.parse(subprocess.run(command, check=True, capture_output=True).stdout)
    types = {
        node.name: {
            field.target.id: ast.unparse(field.annotation)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
        }
        for node in source.body
        if isinstance(node, ast.ClassDef)
    }

    @settings(max_examples=200, suppress_health_check=list(HealthCheck))
    @given(JOBS["hyperpod"])
    def check(job):
        spec = yaml.safe_load(write_spec(job, "hyperpod"))["spec"]
        for keys, name in CLASSES.items():
            part = spec.get(keys[0]) if keys else spec
            for mapping in part if isinstance(part, list) else [part or {}]:
                assert mapping.keys() <= types[name].keys(), name
                for key, value in mapping.items():
                    is_number = types[name][key] in ("int", "Optional[int]")
                    assert isinstance(value, int) is is_number, (name, key, value)

    check()
    assert {"nprocPerNode", "replicaSpecs", "runPolicy"} <= types["_HyperPodPytorchJob"].keys()

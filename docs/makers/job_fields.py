"""The fields of job specs with their types, from the descriptions that the services publish.

A type is "string", "integer", "number", "boolean", "quantity" (text or number) or "any"; after
"spelled-" text may spell it. "=a|b" is one of these texts, "[T]" a list of T, "{T}" a mapping from
names of the user's own, and a name with a capital another shape of the same file. Beside them stand
the required fields of shapes; of "a|b" one is required.

`python docs/makers/job_fields.py aws` writes the fields of the APIs that botocore describes.
`.venv-specs/bin/python docs/makers/job_fields.py parallelcluster` and `... kubernetes FOLDER` write
the others, the last from clones of jobset, kuberay, lws, mpi-operator, training-operator and
sagemaker-hyperpod-cli in one folder; the checkers' environment has the schemas of Kubernetes and
ParallelCluster.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[2] / "src" / "trnsim" / "jobs" / "fields"
Shapes = dict[str, dict[str, str]]
Required = dict[str, list[str]]
FileOfFields = tuple[str, str, Shapes, Required]
"""Name of a file of fields, the description, the shapes, and the fields that these require."""

REQUESTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "batch": {
        "Document": ("RegisterJobDefinitionRequest", "JobDefinition"),
        "Submission": ("SubmitJobRequest",),
    },
    "ecs": {"Document": ("RegisterTaskDefinitionRequest", "TaskDefinition")},
    "sagemaker-training": {"Document": ("CreateTrainingJobRequest", "DescribeTrainingJobResponse")},
    "sagemaker-endpoint": {
        "Document": ("CreateEndpointConfigInput", "DescribeEndpointConfigOutput")
    },
}
"""Request, and description of what was registered, by format and shape: a file may be either."""
MOST_VALUES: Final = 20
"""Values of a list that is checked; the longer ones are of instances and languages, which grow."""
SCALARS: Final = {
    **dict.fromkeys(("string", "timestamp", "blob"), "string"),
    **dict.fromkeys(("integer", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    "boolean": "boolean",
}
MANIFESTS: Final = {
    "Pod": "io.k8s.api.core.v1.Pod",
    "Job": "io.k8s.api.batch.v1.Job",
    "DaemonSet": "io.k8s.api.apps.v1.DaemonSet",
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "ReplicaSet": "io.k8s.api.apps.v1.ReplicaSet",
    "StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
}
RESOURCES: Final = {
    "JobSet": ("jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    "RayJob": ("kuberay", "ray-operator/config/crd/bases/ray.io_rayjobs.yaml"),
    "RayCluster": ("kuberay", "ray-operator/config/crd/bases/ray.io_rayclusters.yaml"),
    "LeaderWorkerSet": (
        "lws",
        "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    ),
    "MPIJob": ("mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
    "PyTorchJob": ("training-operator", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
}
"""Repository and file of the definition of each custom resource."""
REVISIONS: Final = {"training-operator": "v1.9.0"}
"""The last revision with the definition, where the newest has none."""
VALUES: Final = {
    "Container": {
        "imagePullPolicy": "Always|IfNotPresent|Never",
        "terminationMessagePolicy": "File|FallbackToLogsOnError",
    },
    "ContainerPort": {"protocol": "TCP|UDP|SCTP"},
    "DeploymentStrategy": {"type": "Recreate|RollingUpdate"},
    "HostPathVolumeSource": {
        "type": "DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice"
    },
    "JobSpec": {
        "completionMode": "NonIndexed|Indexed",
        "podReplacementPolicy": "TerminatingOrFailed|Failed",
    },
    "LabelSelectorRequirement": {"operator": "In|NotIn|Exists|DoesNotExist"},
    "MPIJobMpiReplicaSpecs": {"restartPolicy": "Always|OnFailure|Never|ExitCode"},
    "MPIJobRunPolicy": {"cleanPodPolicy": "All|Running|None"},
    "NodeSelectorRequirement": {"operator": "In|NotIn|Exists|DoesNotExist|Gt|Lt"},
    "PodFailurePolicyRule": {"action": "FailJob|FailIndex|Ignore|Count"},
    "PodSpec": {
        "dnsPolicy": "ClusterFirstWithHostNet|ClusterFirst|Default|None",
        "preemptionPolicy": "Never|PreemptLowerPriority",
        "restartPolicy": "Always|OnFailure|Never",
    },
    "SeccompProfile": {"type": "Unconfined|RuntimeDefault|Localhost"},
    "Toleration": {
        "effect": "NoSchedule|PreferNoSchedule|NoExecute",
        "operator": "Exists|Equal|Lt|Gt",
    },
    "TopologySpreadConstraint": {"whenUnsatisfiable": "DoNotSchedule|ScheduleAnyway"},
}
"""Values that the schemas of Kubernetes name in prose alone; an empty text is the default.

Sources: k8s.io/api v0.37 core/v1/types.go, batch/v1/types.go, apps/v1/types.go; training-operator
v1.9.0 and mpi-operator, CleanPodPolicy and RestartPolicy.
"""
NAMED_META: Final = "NamedObjectMeta"
"""The metadata of a document, which name it: those of a template need not."""
REQUIRED: Final[dict[str, Required]] = {
    "ecs": {"ContainerDefinition": ["name"]},
    "kubernetes": {
        NAMED_META: ["name|generateName"],
        **{kind: ["metadata", "spec"] for kind in (*MANIFESTS, *RESOURCES)},
    },
    "parallelcluster": {
        "SlurmComputeResource": ["InstanceType|Instances|CapacityReservationTarget"],
        "SlurmQueue": ["ComputeResources"],
    },
}
"""Fields that a service requires by code of its own.

Sources: CloudFormation user guide, AWS::ECS::TaskDefinition ContainerDefinition, Name; Kubernetes
apimachinery pkg/api/validation/objectmeta.go, ValidateObjectMetaAccessor; aws-parallelcluster 3.16,
pcluster/schemas/cluster_schema.py, SlurmComputeResourceSchema, and cluster_config.py, SlurmQueue.
"""
POLICIES: Final = {
    "JobSpec": ("JobPod", "=OnFailure|Never", ["containers", "restartPolicy"]),
    **dict.fromkeys(
        ("DaemonSetSpec", "DeploymentSpec", "ReplicaSetSpec", "StatefulSetSpec"),
        ("ServerPod", "=Always|", ["containers"]),
    ),
}
"""Pods of a kind: their shape, their restart policies and their required fields.

Sources: Kubernetes pkg/apis/batch/validation/validation.go, validateJobSpec, and
pkg/apis/apps/validation/validation.go, ValidatePodTemplateSpecForReplicaSet.
"""
OWN_SOURCES: Final = {
    "ecs": "CloudFormation user guide, AWS::ECS::TaskDefinition ContainerDefinition",
    "kubernetes": "apimachinery pkg/api/validation/objectmeta.go and Kubernetes pkg/apis/batch "
    "and pkg/apis/apps, validation",
}
"""Sources of these fields, where they are no part of the description."""
HYPERPOD: Final = (
    "sagemaker-hyperpod-cli",
    "src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py",
)


class AwsFields:
    """Shapes of botocore's service models."""

    def __init__(self) -> None:
        self.shapes: Shapes = {}
        self.required: Required = {}

    def root(self, name: str, *shapes: Any) -> None:
        """The fields of a request, which has required ones, and those of its description."""
        self._require(name, shapes[0])
        fields: dict[str, str] = {}
        for shape in shapes:
            for member, inner in shape.members.items():
                fields.setdefault(member, self.type_of(inner))
        self.shapes[name] = fields

    def type_of(self, shape: Any) -> str:
        """The type of a shape, whose structures are collected."""
        if shape.type_name == "list":
            return f"[{self.type_of(shape.member)}]"
        if shape.type_name == "map":
            return f"{{{self.type_of(shape.value)}}}"
        values = list(getattr(shape, "enum", ()))
        if values and len(values) <= MOST_VALUES:
            return f"={'|'.join(values)}"
        if shape.type_name != "structure":
            return SCALARS[shape.type_name]
        if shape.name not in self.shapes:
            self.shapes[shape.name] = {}
            self.shapes[shape.name] = {
                name: self.type_of(inner) for name, inner in shape.members.items()
            }
            self._require(shape.name, shape)
        return str(shape.name)

    def _require(self, name: str, shape: Any) -> None:
        if shape.required_members:
            self.required[name] = list(shape.required_members)


def aws() -> Iterator[FileOfFields]:
    """Files of AWS's formats."""
    session: Any = import_module("botocore.session").get_session()
    for name, rows in REQUESTS.items():
        fields = AwsFields()
        service = name.partition("-")[0]
        model = session.get_service_model(service)
        for root, shapes in rows.items():
            fields.root(root, *(model.shape_for(shape) for shape in shapes))
        stands = ", ".join(shape for shapes in rows.values() for shape in shapes)
        source = f"botocore {version('botocore')}: {service}, {stands}"
        yield name, source, fields.shapes, fields.required


class KubernetesFields:
    """Shapes of Kubernetes' own schemas, and of definitions of custom resources."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self.shapes: Shapes = {}
        self.required: Required = {}
        self.kind = ""

    def own(self, name: str, definition: str) -> str:
        """A kind of Kubernetes itself."""
        if name not in self.shapes:
            self.shapes[name] = {}
            properties = self._definitions[definition].get("properties", {})
            self.shapes[name] = {
                key: "any" if key == "status" else self.type_of(row, key)
                for key, row in properties.items()
            }
            if names := _required_names(self._definitions[definition]):
                self.required[name] = names
        return name

    def type_of(self, row: dict[str, Any], name: str) -> str:
        """The type of a property, whose objects are collected; `name` is its own."""
        if "$ref" in row:
            return self._referred(row["$ref"].rpartition("/")[2])
        if row.get("x-kubernetes-int-or-string") or {"type": "string"} in row.get("oneOf", []):
            return "quantity"
        kinds = row.get("type")
        listed = kinds if isinstance(kinds, list) else [kinds]
        kind = next((each for each in listed if each != "null"), "")
        if kind == "array":
            return f"[{self.type_of(row.get('items', {}), name)}]"
        if kind == "object" or "properties" in row:
            return self._object(row, name)
        if kind == "string" and row.get("enum"):
            return f"={'|'.join(row['enum'])}"
        return kind if kind in ("string", "integer", "number", "boolean") else "any"

    def _referred(self, definition: str) -> str:
        kind = definition.rpartition(".")[2]
        if kind in ("Quantity", "IntOrString"):
            return "quantity"
        row = self._definitions[definition]
        if "properties" not in row:
            return self.type_of({key: value for key, value in row.items() if key != "$ref"}, kind)
        return self.own(kind, definition)

    def _object(self, row: dict[str, Any], name: str) -> str:
        properties = row.get("properties")
        if row.get("x-kubernetes-preserve-unknown-fields"):
            return "any"
        if properties is None:
            inner = row.get("additionalProperties")
            return f"{{{self.type_of(inner, name)}}}" if isinstance(inner, dict) else "any"
        if "containers" in properties:
            return self.own("PodSpec", "io.k8s.api.core.v1.PodSpec")
        if "containers" in properties.get("spec", {}).get("properties", {}):
            return self.own("PodTemplateSpec", "io.k8s.api.core.v1.PodTemplateSpec")
        fields = {key: self.type_of(each, key) for key, each in properties.items()}
        return self._named(name, fields, _required_names(row))

    def _named(self, name: str, fields: dict[str, str], required: list[str]) -> str:
        """The name of a shape that has these fields: one of Kubernetes, else one of its own."""
        wide = [
            known
            for known, others in self.shapes.items()
            if len(fields) > 1
            and all(others.get(key) == kind for key, kind in fields.items())
            and self.required.get(known, []) == required
        ]
        if wide:
            return min(wide, key=lambda known: len(self.shapes[known]))
        own = f"{self.kind}{name[0].upper()}{name[1:]}"
        while own in self.shapes and (
            self.shapes[own] != fields or self.required.get(own, []) != required
        ):
            own += "_"
        self.shapes[own] = fields
        if required:
            self.required[own] = required
        return own


def _required_names(row: dict[str, Any]) -> list[str]:
    """The required fields of an object; the API server fills in those that have a default."""
    properties = row.get("properties", {})
    return [name for name in row.get("required") or () if "default" not in properties.get(name, {})]


def kubernetes(folder: Path) -> Iterator[FileOfFields]:
    """The file of Kubernetes' kinds and of the custom resources beside them."""
    schemas = Path(import_module("kubernetes_validate").__file__ or "").parent
    stored = schemas / "kubernetes-json-schema" / "v1.37.0-local" / "_definitions.json"
    definitions = json.loads(stored.read_text(encoding="utf-8"))["$defs"]
    fields = KubernetesFields(definitions)
    for kind, definition in MANIFESTS.items():
        fields.own(kind, definition)
    commits = {}
    for kind, (repository, path) in RESOURCES.items():
        text, commits[repository] = _stored(folder / repository, path)
        text = "\n".join(line for line in text.splitlines() if not line.startswith("{{"))
        versions = import_module("yaml").safe_load(text)["spec"]["versions"]
        schema = next(row for row in versions if row.get("storage"))["schema"]["openAPIV3Schema"]
        properties = dict(schema["properties"])
        properties["metadata"] = {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        properties["status"] = {}
        fields.kind, fields.shapes[kind] = kind, {}
        fields.shapes[kind] = {key: fields.type_of(row, key) for key, row in properties.items()}
    for kind in (*MANIFESTS, *RESOURCES):
        fields.shapes[kind]["metadata"] = NAMED_META
    fields.shapes[NAMED_META] = fields.shapes["ObjectMeta"]
    text, commits[HYPERPOD[0]] = _stored(folder / HYPERPOD[0], HYPERPOD[1])
    for name, rows in VALUES.items():
        for key, values in rows.items():
            if fields.shapes[name][key] != "string":
                raise ValueError(f"{name}.{key} is {fields.shapes[name][key]}")
            fields.shapes[name][key] = f"={values}|"
    for name, (pod, policies, required) in POLICIES.items():
        shape = f"{pod}TemplateSpec"
        fields.shapes[f"{pod}Spec"] = fields.shapes["PodSpec"] | {"restartPolicy": policies}
        fields.required[f"{pod}Spec"] = required
        fields.shapes[shape] = fields.shapes["PodTemplateSpec"] | {"spec": f"{pod}Spec"}
        fields.shapes[name]["template"] = shape
    fields.shapes["HyperPodPyTorchJob"] = fields.shapes["MPIJob"] | {
        "spec": _pydantic(ast.parse(text), "_HyperPodPytorchJob", fields)
    }
    fields.required["HyperPodPyTorchJob"] = ["metadata", "spec"]
    stands = ", ".join(f"{name} {commit[:12]}" for name, commit in sorted(commits.items()))
    source = f"Kubernetes 1.37, kubernetes-validate; definitions of {stands}"
    yield "kubernetes", source, fields.shapes, fields.required


def _stored(repository: Path, path: str) -> tuple[str, str]:
    """A file of a clone at its head or its revision, and the commit."""
    git = ("git", "-C", str(repository))
    revision = REVISIONS.get(repository.name, "HEAD")
    text, head = (
        subprocess.run((*git, *words), capture_output=True, check=True).stdout.decode()  # noqa: S603
        for words in (("show", f"{revision}:{path}"), ("rev-parse", f"{revision}^{{commit}}"))
    )
    return text, head.strip()


def _pydantic(tree: ast.Module, name: str, fields: KubernetesFields) -> str:
    """The shape of a class of pydantic, without its code being run."""
    if name == "Template":
        return "PodTemplateSpec"
    own = f"HyperPod{name.strip('_')}"
    if own in fields.shapes:
        return own
    fields.shapes[own] = {}
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
    for row in body:
        if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name):
            name = row.target.id
            kind = _annotated(tree, row.annotation, fields)
            fields.shapes[own][name] = "quantity" if name == "nprocPerNode" else kind
            options = row.value.keywords if isinstance(row.value, ast.Call) else []
            if row.value is None or (options and "default" not in {key.arg for key in options}):
                fields.required.setdefault(own, []).append(name)
    return own


def _annotated(tree: ast.Module, hint: ast.expr, fields: KubernetesFields) -> str:
    if isinstance(hint, ast.Name):
        known = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
        return known.get(hint.id) or _pydantic(tree, hint.id, fields)
    if not isinstance(hint, ast.Subscript):
        return "any"
    outer, inner = ast.unparse(hint.value), hint.slice
    if outer == "Optional":
        return _annotated(tree, inner, fields)
    if outer == "List":
        return f"[{_annotated(tree, inner, fields)}]"
    if outer == "Dict" and isinstance(inner, ast.Tuple):
        return f"{{{_annotated(tree, inner.elts[1], fields)}}}"
    return "quantity" if outer == "Union" else "any"


class ClusterFields:
    """Shapes of ParallelCluster's marshmallow schemas."""

    def __init__(self) -> None:
        self.shapes: Shapes = {}
        self.required: Required = {}
        self._named: dict[type[Any], str] = {}

    def shape(self, schema: Any) -> str:
        """The name of a schema's shape; schemas of two modules may have one name."""
        name = type(schema).__name__.removesuffix("Schema")
        while self._named.setdefault(type(schema), name) == name and any(
            other == name for kind, other in self._named.items() if kind is not type(schema)
        ):
            name = self._named[type(schema)] = f"{name}_"
        name = self._named[type(schema)]
        if name not in self.shapes:
            self.shapes[name] = {}
            self.shapes[name] = {
                field.data_key or key: self.type_of(field)
                for key, field in schema.fields.items()
                if not field.dump_only
            }
            names = [
                field.data_key or key for key, field in schema.fields.items() if field.required
            ]
            if names:
                self.required[name] = names
            if name.startswith("CustomActionScript"):  # its field takes a list by code of its own
                self.shapes[name]["Sequence"] = f"[{name}]"
                self.required[name] = ["Script|Sequence"]
        return name

    def type_of(self, field: Any) -> str:
        """The type of a field."""
        fields: Any = import_module("marshmallow").fields
        if isinstance(field, fields.Nested):
            name = self.shape(field.schema)
            return f"[{name}]" if field.many else name
        if isinstance(field, fields.List):
            return f"[{self.type_of(field.inner)}]"
        if isinstance(field, fields.Dict):
            return "{any}"
        kinds = {
            fields.Boolean: "spelled-boolean",
            fields.Integer: "spelled-integer",
            fields.Float: "spelled-number",
            fields.String: "string",
        }
        choices = [rule.choices for rule in field.validators if type(rule).__name__ == "OneOf"]
        if isinstance(field, fields.String) and len(choices) == 1:
            return f"={'|'.join(map(str, choices[0]))}"
        return next((name for kind, name in kinds.items() if isinstance(field, kind)), "any")


def parallelcluster() -> Iterator[FileOfFields]:
    """The file of ParallelCluster's configuration."""
    fields = ClusterFields()
    schemas: Any = import_module("pcluster.schemas.cluster_schema")
    root = fields.shape(schemas.ClusterSchema(cluster_name="a"))
    fields.shapes["Document"] = fields.shapes.pop(root)
    fields.required["Document"] = fields.required.pop(root)
    source = f"aws-parallelcluster {version('aws-parallelcluster')}"
    yield "parallelcluster", source, fields.shapes, fields.required


def with_own(name: str, required: Required) -> Required:
    """The required fields of a file, with those that the service's own code requires."""
    own = REQUIRED.get(name, {})
    return {
        shape: list(dict.fromkeys((*required.get(shape, ()), *own.get(shape, ()))))
        for shape in {**required, **own}
    }


def text_of(source: str, shapes: Shapes, required: Required) -> str:
    """A file of fields, a shape a line."""
    sections: dict[str, dict[str, Any]] = {"shapes": shapes, "required": required}
    texts = [f' "source": {json.dumps(source)}']
    for title, rows in sections.items():
        lines = [f"  {json.dumps(n)}: {json.dumps(rows[n], sort_keys=True)}" for n in sorted(rows)]
        texts.append(f' "{title}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(texts) + "\n}\n"


def main(kind: str, *folder: str) -> None:
    """Write the files of a kind."""
    makers: dict[str, Callable[..., Iterator[FileOfFields]]]
    makers = {"aws": aws, "kubernetes": kubernetes, "parallelcluster": parallelcluster}
    for name, source, shapes, required in makers[kind](*map(Path, folder)):
        sources = "; ".join(filter(None, (source, OWN_SOURCES.get(name))))
        text = text_of(sources, shapes, with_own(name, required))
        (TARGET / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

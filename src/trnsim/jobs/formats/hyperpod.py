"""PyTorch jobs of SageMaker HyperPod's training operator: named roles, each with its replicas.

Source: github.com/aws/sagemaker-hyperpod-cli 011ca927
src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py, the fields and
defaults of the resource; Amazon SageMaker AI developer guide, Using the HyperPod training operator.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    Defaults,
    KeptFields,
    Keys,
    check_list,
    check_mapping,
    count,
    deadline,
    deadline_s,
    label_name,
    manifest_text,
    manifests,
    spec_of,
    stated_replicas,
)
from trnsim.jobs.formats.pod_head import has_head
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.refusal import check_training
from trnsim.jobs.formats.replica_processes import read_processes, stated_processes
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_VERSION: Final = "sagemaker.amazonaws.com/v1"
_KIND: Final = "HyperPodPyTorchJob"
_TITLE: Final = f"a {_KIND}"
_ROLES: Final[Keys] = ("spec", "replicaSpecs")
_RUN: Final[Keys] = ("spec", "runPolicy")
_ELASTIC: Final[Keys] = ("spec", "elasticPolicy")
_PROCESSES: Final = "nprocPerNode"
_POD: Final[Keys] = ("template", "spec")
_CONTAINER: Final = "pytorch"
_LAUNCHER: Final = "hyperpodrun"
_RENDEZVOUS_OPTIONS: Final = ("--rdzv-backend", "--rdzv-endpoint")
"""Options of torchrun for the address of the rendezvous, with dashes for underscores.

Source: PyTorch, torchrun's documentation.
"""
_MOST_ROLES: Final = 100


def _defaults(roles: int) -> Defaults:
    """Keys and values of fields that Kubernetes demands and a job does not have."""
    yield ("apiVersion",), _VERSION
    yield ("kind",), _KIND
    for index in range(roles):
        yield (*_ROLES, index, *_POD, "containers", 0, "name"), _CONTAINER


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    for keys in (("metadata",), ("spec",), _RUN, _ELASTIC):
        check_mapping(reader, *keys)
    number = check_list(reader, *_ROLES)
    if not number:
        fix = "add an item with name, replicas and template"
        raise reader.refused(_ROLES, "legal: a list of one replica spec or more", fix)
    roles = [_role(reader, index) for index in range(number)]
    if number == 1 and reader.value(*_ELASTIC) is not None:
        least_replicas = count(reader, *_ELASTIC, "minReplicas", field="roles.0.least_replicas")
        roles = [replace(roles[0], least_replicas=least_replicas)]
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        roles=tuple(roles),
        **selector_fields(reader, [(*_ROLES, index, *_POD) for index in range(number)]),
        time_limit_s=deadline_s(reader, *_RUN),
    )
    return spec_of("hyperpod", reader, job, _defaults(number))


def _role(reader: SpecReader, index: int) -> Role:
    """The role of a replica spec, without replicas if the spec states none."""
    keys = (*_ROLES, index)
    path = f"roles.{index}"
    name = reader.text(*keys, "name", field=f"{path}.name")
    replicas = count(reader, *keys, "replicas", field=f"{path}.replicas")
    if reader.value(*keys, "replicas") is None:
        replicas = 0
    job_role = role(reader, (*keys, *_POD), path, name=name, replicas=replicas)
    processes = read_processes(reader, "spec", _PROCESSES, field=f"{path}.processes")
    return job_role if processes is None else replace(job_role, processes=processes)


def _write(job: Job) -> str:
    further_fields = ("processes", "least_replicas")
    check_job(job, _TITLE, roles=range(1, _MOST_ROLES + 1), further_fields=further_fields)
    check_training(job, _TITLE)
    # The operator knows where ranks meet: hyperpodrun stands for a torchrun with an address.
    job = replace(
        job, roles=tuple(replace(job_role, command=_words(job_role)) for job_role in job.roles)
    )
    if has_head(job):
        raise BadInput(
            f"a command names MASTER_ADDR; ranks of {_TITLE} meet through {_LAUNCHER}",
            fix=f"start the ranks by {_LAUNCHER}, without an address",
            source="Amazon SageMaker AI developer guide, Using the HyperPod training operator",
        )
    kept_fields = KeptFields(job.kept_fields)
    processes = stated_processes(job.roles, _TITLE)
    document = {
        "apiVersion": _VERSION,
        "kind": _KIND,
        "metadata": {"name": label_name(job.name, "job")},
        "spec": without_empty(
            {
                _PROCESSES: None if processes is None else str(processes),
                "runPolicy": without_empty({"activeDeadlineSeconds": deadline(job)}),
                "elasticPolicy": _elastic(job),
                "replicaSpecs": [
                    _replica_spec(job, index, kept_fields) for index in range(len(job.roles))
                ],
            }
        ),
    }
    return manifest_text(job, document, _defaults(len(job.roles)))


def _words(job_role: Role) -> tuple[str, ...]:
    """A role's command; a torchrun with a rendezvous address is replaced by HyperPod's launcher."""
    words = job_role.command
    if words[:1] != ("torchrun",) or not has_head(Job(roles=(job_role,))):
        return words
    is_value = False
    launcher_words = [_LAUNCHER]
    for word in words[1:]:
        name, equals, _ = word.replace("_", "-").partition("=")
        is_rendezvous = name in _RENDEZVOUS_OPTIONS
        if not is_rendezvous and not is_value:
            launcher_words.append(word)
        is_value = is_rendezvous and not equals
    return tuple(launcher_words)


def _elastic(job: Job) -> dict[str, Any]:
    """The `elasticPolicy`: the least number of replicas of the only role.

    Raises:
        BadInput: the job has several roles, of which one grows.
    """
    elastic_roles = [job_role.name for job_role in job.roles if job_role.least_replicas is not None]
    if elastic_roles and len(job.roles) > 1:
        raise BadInput(
            f"role {elastic_roles[0]!r} grows; the elastic policy of {_TITLE} is of all its roles",
            fix="give the job one role",
        )
    return without_empty({"minReplicas": next(iter(job.roles)).least_replicas})


def _replica_spec(job: Job, index: int, kept_fields: KeptFields) -> dict[str, Any]:
    """The replica spec of a role."""
    job_role, inner = job.roles[index], kept_fields.fields_below(*_ROLES, index)
    return without_empty(
        {
            "name": label_name(job_role.name, f"role-{index}"),
            "replicas": stated_replicas(job, index, inner, ("replicas",)),
            "template": {
                "spec": pod_spec(job_role, job, inner.fields_below(*_POD), container=_CONTAINER)
            },
        }
    )


FORMAT: Final = JobFormat(
    name="hyperpod",
    title="SageMaker HyperPodPyTorchJob",
    suffix=".yaml",
    places=partial(manifests, group=_VERSION.partition("/")[0], kinds=(_KIND,)),
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)

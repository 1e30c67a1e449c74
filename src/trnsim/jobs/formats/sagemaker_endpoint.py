"""Endpoint configurations of SageMaker, as CreateEndpointConfig takes them.

A production variant is a role. Image, environment and command stand in CreateModel, which the
variant names.

Sources: Amazon SageMaker API reference, CreateEndpointConfig and ProductionVariant; CloudFormation
user guide, AWS::SageMaker::EndpointConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.listing import item_count, tagged_model, tags
from trnsim.jobs.formats.refusal import UnsupportedField, check_expressible, check_name
from trnsim.jobs.formats.sagemaker import (
    UNSUPPORTED_FIELDS,
    Keys,
    check_whole,
    instance_in,
    instance_name,
    take_examples,
)
from trnsim.jobs.formats.writing import json_spec, with_kept_fields, without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_NAME: Final = re.compile(r"(?=.{1,63}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", re.ASCII)
"""Source: CreateEndpointConfig, EndpointConfigName; ProductionVariant, VariantName."""
_VARIANTS: Final = "ProductionVariants"
_SCALING: Final = "ManagedInstanceScaling"
_MODEL: Final = "your-model"
"""Name of a variant's model if the job states none."""
_IN_MODEL: Final = "CreateModel states it, not the endpoint configuration"
_UNSUPPORTED_FIELDS: Final = UNSUPPORTED_FIELDS | {
    "time_limit_s": UnsupportedField("an endpoint has no time limit"),
    "roles.image": UnsupportedField(_IN_MODEL, "leave out the image"),
    "roles.environment": UnsupportedField(_IN_MODEL, "leave out the environment"),
    "roles.command": UnsupportedField(_IN_MODEL, "leave out the command"),
}


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    yield from resources(root, "AWS::SageMaker::EndpointConfig", "EndpointConfigName")
    if (
        isinstance(root.value, dict)
        and "EndpointConfigName" in root.value
        and _VARIANTS in root.value
    ):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of an endpoint configuration."""
    reader = SpecReader(place)
    name = reader.text("EndpointConfigName", field="name")
    count = item_count(reader, _VARIANTS)
    if not count:
        fix = 'add {"VariantName": ..., "ModelName": ..., "InstanceType": "ml.inf2.xlarge"}'
        raise reader.refused((_VARIANTS,), "an endpoint needs a variant", fix)
    roles = tuple(_role(reader, index) for index in range(count))
    model = tagged_model(reader, "Tags", key="Key", value="Value")
    job = Job(
        name=name, kind=JobKind.SERVING, roles=roles, model=model, kept_fields=reader.kept_fields()
    )
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _role(reader: SpecReader, index: int) -> Role:
    """The role of a variant."""
    keys: Keys = (_VARIANTS, index)
    field = f"roles.{index}"
    name = reader.text(*keys, "VariantName", field=f"{field}.name")
    instance = instance_in(reader, *keys, "InstanceType", field=f"{field}.instance")
    take_examples(reader, {(*keys, "ModelName"): _MODEL})
    is_scaled = reader.value(*keys, _SCALING, "Status") == "ENABLED"
    least_instances = None
    if is_scaled:
        least_instances = reader.whole(
            *keys, _SCALING, "MinInstanceCount", field=f"{field}.least_replicas"
        )
    if least_instances is None:
        replicas = reader.whole(*keys, "InitialInstanceCount", field=f"{field}.replicas", minimum=1)
        return Role(name=name, instance=instance, is_exclusive=True, replicas=replicas)
    reader.take(*keys, _SCALING, "Status")
    most_instances = reader.whole(
        *keys, _SCALING, "MaxInstanceCount", field=f"{field}.replicas", minimum=1
    )
    if reader.value(*keys, "InitialInstanceCount") == (least_instances or 1):
        reader.take(*keys, "InitialInstanceCount")
    return Role(
        name=name,
        instance=instance,
        is_exclusive=True,
        replicas=most_instances,
        least_replicas=least_instances,
    )


def _write(job: Job) -> str:
    """The endpoint configuration of a job."""
    check_expressible(job, _UNSUPPORTED_FIELDS)
    if job.kind is not JobKind.SERVING:
        raise BadInput(f"a {job.kind.value} job is no endpoint", fix="--as sagemaker-training")
    if not job.roles:
        raise BadInput("an endpoint needs a role", fix="give the job a role")
    legal = "SageMaker: 1 to 63 letters, digits and -, no - at an end"
    check_name(job.name, _NAME, legal)
    for role in job.roles:
        check_name(role.name, _NAME, legal)
        check_whole(role)
    document: dict[str, Any] = {
        "EndpointConfigName": job.name,
        _VARIANTS: [_variant(role) for role in job.roles],
        "Tags": tags(job, ("Tags",), key="Key", value="Value"),
    }
    document = with_kept_fields(without_empty(document), job.kept_fields)
    for variant, role in zip(document[_VARIANTS], job.roles, strict=False):
        _complete(variant, role)
    return json_spec(document)


def _variant(role: Role) -> dict[str, Any]:
    """The variant of a role; a role that scales has the fields of managed scaling."""
    fields = {"VariantName": role.name, "InstanceType": instance_name(role)}
    if role.least_replicas is None:
        return without_empty(fields | {"InitialInstanceCount": role.replicas})
    scaling = {
        "Status": "ENABLED",
        "MinInstanceCount": role.least_replicas,
        "MaxInstanceCount": role.replicas,
    }
    return without_empty(fields | {_SCALING: without_empty(scaling)})


def _complete(variant: dict[str, Any], role: Role) -> None:
    """Add the fields that the API demands, unless they are stated."""
    is_serverless = "ServerlessConfig" in variant
    if role.least_replicas is not None:
        variant.setdefault("InitialInstanceCount", role.least_replicas or 1)
    if not is_serverless:
        variant.setdefault("ModelName", _MODEL)


FORMAT: Final = JobFormat(
    name="sagemaker-endpoint",
    title="SageMaker endpoint configuration",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
    fields="sagemaker-endpoint",
)

"""The instances of a role, and what they cost an hour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from trnsim.arch.catalogue import Catalogue, Instance, catalogue
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.price import KINDS, Quote, quote
from trnsim.price.regions import is_region

_KINDS: Final = ("capacity_block", "on_demand", "spot")
"""Kinds of purchase in order of preference, for jobs that state no kind."""
HOSTING: Final = "sagemaker_hosting"
"""The kind of purchase of a SageMaker endpoint."""
_SAGEMAKER: Final = "ml."
"""Prefix of SageMaker's names of instance types."""


@dataclass(frozen=True)
class RolePrice:
    """The instances of a role and their price.

    Attributes:
        instances: number of instances; None if the spec does not state the replicas.
        least_instances: number of instances for the smallest number of replicas; None without one.
        is_of_sagemaker: whether SageMaker runs the role's instances.
    """

    role: Role
    instance: Instance
    instances: int | None
    least_instances: int | None
    quote: Quote
    is_of_sagemaker: bool = False

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all instances of the role; None without a price or a number."""
        usd = self.quote.usd_per_hour
        return None if usd is None or self.instances is None else float(usd) * self.instances


def role_prices(
    job: Job, assumption: SpecAssumption, *, is_of_sagemaker: bool = False
) -> tuple[list[RolePrice], list[str]]:
    """The instances of the roles, and the reasons why some roles are left out.

    Args:
        job: the job; a region or a kind of purchase that is not legal counts as not stated.
        assumption: the user's values for fields that the job does not state.
        is_of_sagemaker: whether SageMaker runs all roles; it runs roles of an ``ml.`` type anyway.

    Raises:
        BadInput: an instance type or a kind of purchase of `assumption` is not known.
    """
    job = replace(
        job,
        region=job.region if is_region(job.region) else "",
        purchase=job.purchase if job.purchase in KINDS else "",
    )
    rows = assumption.rows or catalogue()
    reasons: list[str] = []
    prices: list[RolePrice] = []
    for role in job.roles:
        is_sagemaker = is_of_sagemaker or role.instance.startswith(_SAGEMAKER)
        name = (role.instance or assumption.instance_name).removeprefix(_SAGEMAKER)
        if not name:
            reasons.append(f"role {role.name}: no instance type; --on INSTANCE states it")
            continue
        if name not in rows.instances:
            reasons.append(f"role {role.name}: {role.instance} is not in the catalogue")
            continue
        if role.replicas is None:
            reasons.append(f"role {role.name}: the number of replicas is not stated")
        instance = rows.instances[name]
        prices.append(
            RolePrice(
                role,
                instance,
                _instances(role, instance, role.replicas),
                _instances(role, instance, role.least_replicas),
                _quote(name, job, assumption, rows, is_sagemaker=is_sagemaker),
                is_sagemaker,
            )
        )
    return prices, reasons


def replica_part(role: Role, instance: Instance) -> Fraction | None:
    """Share of an instance's accelerators that a replica takes; None where the role states none."""
    count = role.requested("devices") or len(role.device_indexes) or role.requested("gpus") or 0
    core_count = role.requested("cores") or 0
    if count and not role.pod_requests:
        core_count = 0  # another name of the same devices
    if not count and not core_count:
        return None
    cores = catalogue().accelerator(instance.accelerator).cores if core_count else 1
    return Fraction(count * cores + core_count, cores * instance.count)


def _instances(role: Role, instance: Instance, replicas: int | None) -> int | None:
    """Whole instances that hold the replicas of a role."""
    if replicas is None:
        return None
    part = replica_part(role, instance)
    replicas_per_instance = 1 if role.is_exclusive or part is None else max(1 // part, 1)
    return -(-replicas // replicas_per_instance)


def _quote(
    name: str, job: Job, assumption: SpecAssumption, rows: Catalogue, *, is_sagemaker: bool
) -> Quote:
    """The price of an instance, by the first kind of purchase that has one.

    A price of SageMaker hosting may stand under SageMaker's name of the instance, or under EC2's.
    """
    purchase = assumption.purchase or job.purchase
    offers = [(name, kind) for kind in ((purchase,) if purchase else _KINDS)]
    if job.kind is JobKind.SERVING and not purchase and is_sagemaker:
        priced_names = {row.instance for row in rows.prices}
        names = (each for each in (f"{_SAGEMAKER}{name}", name) if each in priced_names)
        offers = [*((instance, HOSTING) for instance in names), *offers]
    quotes = [
        quote(instance, kind, region=job.region or None, rows=rows) for instance, kind in offers
    ]
    return next((offer for offer in quotes if offer.usd_per_hour is not None), quotes[0])

"""The instances of a role, and what they cost an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.arch.catalogue import Catalogue, Instance, catalogue
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.price import Quote, quote

__all__ = ["HOSTING", "RolePrice", "replica_part", "role_prices"]

_KINDS: Final = ("capacity_block", "on_demand", "spot")
"""Kinds of purchase in order: without a stated kind, the first that has a price counts."""
HOSTING: Final = "sagemaker_hosting"
"""The kind of purchase of a SageMaker endpoint."""
_SAGEMAKER: Final = "ml."
"""Beginning of SageMaker's names of instance types."""


@dataclass(frozen=True)
class RolePrice:
    """The instances of a role and their price.

    Attributes:
        role: the role.
        instance: their type.
        instances: number of instances; None if the spec does not state the replicas.
        least_instances: number of instances that are always there.
        quote: price of one.
    """

    role: Role
    instance: Instance
    instances: int | None
    least_instances: int | None
    quote: Quote

    @property
    def is_of_sagemaker(self) -> bool:
        """Whether the spec names the instance as SageMaker does."""
        return self.role.instance.startswith(_SAGEMAKER)

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all instances of the role; None without a price or a number."""
        usd = self.quote.usd_per_hour
        return None if usd is None or self.instances is None else float(usd) * self.instances


def role_prices(job: Job, assumption: SpecAssumption) -> tuple[list[RolePrice], list[str]]:
    """The instances of the roles, and the reasons why some roles are left out.

    Raises:
        BadInput: an instance type or a kind of purchase of `assumption` is not known.
    """
    rows = assumption.rows or catalogue()
    reasons: list[str] = []
    prices = [_role_price(role, job, assumption, rows, reasons) for role in job.roles]
    return [price for price in prices if price is not None], reasons


def replica_part(role: Role, instance: Instance) -> float | None:
    """Part of an instance's accelerators that a replica takes; None for all of them."""
    count = role.devices or len(role.device_indexes) or role.gpus
    if count:
        return count / instance.count
    if role.cores:
        cores = catalogue().accelerator(instance.accelerator).cores
        return role.cores / (cores * instance.count)
    return None


def _role_price(
    role: Role, job: Job, assumption: SpecAssumption, rows: Catalogue, reasons: list[str]
) -> RolePrice | None:
    """The instances of a role; None, and a reason, without an instance type that is known."""
    name = (role.instance or assumption.instance_name).removeprefix(_SAGEMAKER)
    if not name:
        reasons.append(f"role {role.name}: no instance type; --on INSTANCE states it")
        return None
    if name not in rows.instances:
        reasons.append(f"role {role.name}: {role.instance} is not in the catalogue")
        return None
    instance = rows.instances[name]
    if role.replicas is None:
        reasons.append(f"role {role.name}: the number of replicas is not stated")
    return RolePrice(
        role,
        instance,
        _instances(role, instance, role.replicas),
        _instances(role, instance, role.least_replicas),
        _quote(name, job, assumption, rows),
    )


def _instances(role: Role, instance: Instance, replicas: int | None) -> int | None:
    """Whole instances that hold the replicas of a role."""
    if replicas is None:
        return None
    part = replica_part(role, instance)
    at_once = 1 if role.is_exclusive or part is None else max(int(1 / part), 1)
    return -(-replicas // at_once)


def _quote(name: str, job: Job, assumption: SpecAssumption, rows: Catalogue) -> Quote:
    """The price of an instance, of the first kind that has one."""
    stated = assumption.purchase or job.purchase
    kinds = (stated,) if stated else _KINDS
    if job.kind is JobKind.SERVING and not stated and job.roles[0].instance.startswith(_SAGEMAKER):
        kinds = (HOSTING, *kinds)
    quotes = [quote(name, kind, region=job.region or None, rows=rows) for kind in kinds]
    return next((offer for offer in quotes if offer.usd_per_hour is not None), quotes[0])

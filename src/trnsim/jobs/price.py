"""The time of a job and its bill, by the plan of its layout, or as a bound where there is no plan.

`trnsim plan train` estimates the same time for the same model, layout, instances and tokens, with
failures and checkpoints. A job without a model, a layout or a length has no plan; its
time limit, if it states one, is an upper bound. The bill is the time times the price of all
instances, for each copy of an array. A server has no end: its bill is per hour, and its plan, as
`trnsim plan serve` makes it, has the most load and the USD of a million output tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from trnsim.facts import Interval
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job, JobKind
from trnsim.jobs.plans import NoPlan, serving_plan, starts_server, training_plan
from trnsim.jobs.role_price import HOSTING, RolePrice, role_prices
from trnsim.price import KINDS
from trnsim.price.regions import LEGAL_REGION, is_region
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.train.estimate import TrainingEstimate

_HOUR_S: Final = 3600.0
_MOST_CHARS: Final = 60
_SAGEMAKER_CAVEAT: Final = (
    "the price is EC2's; SageMaker bills its own for ml. instances, which is higher and not in the "
    "catalogue: --prices states it"
)
"""Source: aws.amazon.com/sagemaker/pricing: instances of SageMaker have prices of their own."""


class TimeBasis(Enum):
    """The source of a job's time."""

    PLAN = "plan"
    LIMIT = "time limit, an upper bound"
    NONE = "none"


@dataclass(frozen=True)
class JobPrice:
    """The time of a job and its bill.

    Attributes:
        basis: source of the time.
        training: the plan of a training job; None if there is none.
        serving: the plan of a server; None if there is none.
        time_s: seconds of the job, or None.
        reasons: reasons why there is no plan, or no bill.
        caveats: costs that the bill leaves out, in words.
    """

    job: Job
    roles: tuple[RolePrice, ...]
    basis: TimeBasis
    training: TrainingEstimate | None
    serving: ServingPlan | None
    time_s: Interval | None
    reasons: tuple[str, ...]
    caveats: tuple[str, ...] = ()

    @property
    def step_s(self) -> Interval | None:
        """Seconds of a training step; None without a plan."""
        return None if self.training is None else self.training.step.step_s

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all instances of all copies; None if the price of one role is not known."""
        prices = [role.usd_per_hour for role in self.roles]
        stated_usd = [usd for usd in prices if usd is not None]
        return (
            sum(stated_usd) * self.job.copies if prices and len(stated_usd) == len(prices) else None
        )

    @property
    def usd(self) -> Interval | None:
        """The bill: ``time usd_per_hour``; None if the time or the price is not known."""
        if self.time_s is None or self.usd_per_hour is None:
            return None
        return self.time_s.scaled(self.usd_per_hour / _HOUR_S)


def price_job(
    job: Job, assumption: SpecAssumption | None = None, *, is_of_sagemaker: bool = False
) -> JobPrice:
    """The time and the bill of a job.

    Args:
        job: the job.
        assumption: the user's values for fields that the job does not state.
        is_of_sagemaker: whether SageMaker runs the job, at its own prices.

    Raises:
        BadInput: an instance type, a kind of purchase or a model of `assumption` is not known.
    """
    assumption = assumption or SpecAssumption()
    roles, reasons = role_prices(job, assumption, is_of_sagemaker=is_of_sagemaker)
    training, serving = None, None
    if len(roles) == len(job.roles):
        try:
            if job.kind is JobKind.SERVING or starts_server(job):
                serving = serving_plan(job, roles, assumption)
            elif job.kind is JobKind.TRAINING:
                training = training_plan(job, roles, assumption)
        except NoPlan as no_plan:
            reasons.append(str(no_plan))
    basis, time_s = TimeBasis.NONE, None
    if training is not None:
        basis, time_s = TimeBasis.PLAN, training.time_s
    elif job.time_limit_s is not None and job.kind is JobKind.TRAINING:
        limit_s = job.time_limit_s
        basis, time_s = TimeBasis.LIMIT, Interval(limit_s, limit_s, limit_s)
    return JobPrice(
        job, tuple(roles), basis, training, serving, time_s, tuple(reasons), _caveats(job, roles)
    )


def _caveats(job: Job, roles: Sequence[RolePrice]) -> tuple[str, ...]:
    """Caveats: EC2's price for SageMaker, a region or a kind of purchase that is not legal."""
    is_ec2 = any(role.is_of_sagemaker and role.quote.kind != HOSTING for role in roles)
    caveats = [_SAGEMAKER_CAVEAT] if is_ec2 else []
    if job.region and not is_region(job.region):
        caveats.append(
            f"region is {job.region[:_MOST_CHARS]!r}, not {LEGAL_REGION}: any region's prices count"
        )
    if job.purchase and job.purchase not in KINDS:
        legal = ", ".join(KINDS)
        caveats.append(
            f"the kind of purchase is {job.purchase[:_MOST_CHARS]!r}, which is not known; legal: "
            f"{legal}"
        )
    return tuple(caveats)

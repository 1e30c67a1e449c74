"""A user's values for fields that a spec does not state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.jobs.spec import JobSpec
from trnsim.place.machine import machine
from trnsim.workload.model_names import config_file


@dataclass(frozen=True, kw_only=True)
class SpecAssumption:
    """Values for fields that a spec does not state.

    Attributes:
        instance: instance type of roles that state none.
        model: name of a model, or path of a config.json; it replaces the spec's model.
        tokens: tokens of the run.
        steps: optimizer steps of the run.
        purchase: kind of purchase; it replaces the spec's kind.
        rows: catalogue of prices; the built-in one if None.
    """

    instance: str = ""
    model: str = ""
    tokens: float | None = None
    steps: int | None = None
    purchase: str = ""
    rows: Catalogue | None = None

    @property
    def instance_name(self) -> str:
        """The instance type of roles that state none, by EC2's name; "" if the user states none.

        Raises:
            BadInput: the type is not known.
        """
        rows = self.rows or catalogue()
        if not self.instance or self.instance in rows.instances:
            return self.instance
        return machine(self.instance, rows=rows).instance.name

    def complete_spec(self, spec: JobSpec) -> JobSpec:
        """The spec with the user's instance type and model.

        Raises:
            BadInput: the instance type or the model is not known.
        """
        name = self.instance_name
        if self.model:
            config_file(self.model)
        roles = (replace(role, instance=role.instance or name) for role in spec.job.roles)
        return spec.with_job(roles=tuple(roles), model=self.model or spec.job.model)

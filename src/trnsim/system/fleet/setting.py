"""Context of the fields of services and jobs: the fleet, the period, the scenario's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from trnsim.errors import BadInput
from trnsim.files import check_readable
from trnsim.reader import FileRecord
from trnsim.system.fleet.demand import DAY_HOURS, HOUR_STEPS
from trnsim.system.fleet.fields import JobFields, ServiceFields
from trnsim.system.fleet.scenario import Fleet
from trnsim.workload.model_names import named_file


@dataclass(frozen=True)
class Setting:
    """The fleet, the period of time, and the folder of the files.

    Attributes:
        folder: the folder of the scenario, to which the files that it names are relative.
        zone: the zone of local times.
        start: the first hour.
        tell: called with a line on the current computation.
    """

    fleet: Fleet
    instance: str
    folder: Path
    zone: ZoneInfo
    start: datetime
    days: int
    tell: Callable[[str], None]

    def path(self, fields: FileRecord, field: str) -> Path:
        """The file beside the scenario that a field names.

        Raises:
            BadInput: it cannot be read.
        """
        path = self.folder / str(getattr(fields, field))
        try:
            check_readable(path)
        except BadInput as error:
            raise fields.refused(field, error.reason, error.fix) from None
        return path

    def model_file(self, fields: JobFields | ServiceFields) -> Path:
        """The configuration of the model that a job or a service names.

        Raises:
            BadInput: no such file is beside the scenario, and no model of this name ships.
        """
        path = named_file(fields.model)
        if path is not None and not (self.folder / fields.model).exists():
            return path
        return self.path(fields, "model")

    @property
    def steps(self) -> int:
        """Steps of 5 minutes."""
        return self.days * DAY_HOURS * HOUR_STEPS

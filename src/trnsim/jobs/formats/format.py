"""A format of specs: which documents are of it, how one is read, how a job is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trnsim.jobs.job import Job
from trnsim.jobs.spec import JobSpec
from trnsim.reader import SourcePlace

__all__ = ["JobFormat"]


@dataclass(frozen=True)
class JobFormat:
    """A format of specs.

    Attributes:
        name: its name on the command line, such as "ecs".
        title: its name in words, such as "ECS task definition".
        suffix: ending of a file of it, such as ".json".
        places: the jobs of the format in a document; none if it is of another format. A text that
            is neither YAML nor JSON is a document whose value is the text.
        read: the spec of such a place. Raises BadInput at the line of a value that is not legal.
        write: the text of a spec of the job. Raises BadInput for a job that the format cannot
            express, and says why.
        is_manifest: whether Kubernetes takes it, and runs its roles in pods.
        fields: file of `jobs/fields` with the fields that its service describes; "" where none
            does, and the program that reads it takes any field.
    """

    name: str
    title: str
    suffix: str
    places: Callable[[SourcePlace], Iterable[SourcePlace]]
    read: Callable[[SourcePlace], JobSpec]
    write: Callable[[Job], str]
    is_manifest: bool = False
    fields: str = ""

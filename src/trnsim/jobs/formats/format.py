"""A format of specs: the documents that belong to it, its reader, and its writer of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trnsim.jobs.job import Job
from trnsim.jobs.spec import JobSpec
from trnsim.reader import SourcePlace


@dataclass(frozen=True)
class JobFormat:
    """A format of specs.

    Attributes:
        name: name of the format on the command line, such as "ecs".
        title: name in words, such as "ECS task definition".
        suffix: suffix of files, such as ".json".
        places: function from a document to the place of each job in it; it yields nothing for a
            document of another format. A text that is neither YAML nor JSON is a document whose
            value is the text.
        read: function from such a place to its spec. Raises BadInput at the line of a value that
            is not legal.
        write: function from a job to the text of its spec. Raises BadInput, with the reason, for a
            job that the format cannot express.
        is_manifest: whether specs are manifests of Kubernetes, which runs the job's roles in pods.
        fields: name of the file in `jobs/fields` with the legal fields, from the service's own
            description; "" for a format without a description, whose reader accepts any field.
    """

    name: str
    title: str
    suffix: str
    places: Callable[[SourcePlace], Iterable[SourcePlace]]
    read: Callable[[SourcePlace], JobSpec]
    write: Callable[[Job], str]
    is_manifest: bool = False
    fields: str = ""

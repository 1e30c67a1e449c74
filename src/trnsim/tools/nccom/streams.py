"""Operations at once, each on a stream of its own: ``--streams-json``.

A stream with fewer sizes repeats its last size until the longest stream ends. Contention of streams
is not modelled: each has the time that it has alone.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Multistream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trnsim.reader import FileRecord, between, read
from trnsim.tools.nccom.options import FILE_FIXES, OperationOptions, StreamFields
from trnsim.tools.nccom.times import PlannedOperation, SizeTime

_MOST_STREAMS = 64


@dataclass(frozen=True, kw_only=True)
class StreamsFile(FileRecord):
    """The file of ``--streams-json``."""

    streams: tuple[StreamFields, ...] = between(
        "an operation a stream, in the order of their numbers", 1, _MOST_STREAMS
    )


def streams_of(base: OperationOptions, path: Path | None) -> list[OperationOptions]:
    """The options of each stream; without a file, the command line's alone.

    Raises:
        BadInput: the file cannot be read, or a field is not legal.
    """
    if path is None:
        return [base]
    return [
        stream.with_defaults(base)
        for stream in read(StreamsFile, path, FILE_FIXES["--streams-json"]).streams
    ]


def blocks(streams: Sequence[PlannedOperation]) -> list[list[SizeTime]]:
    """The rows of each stream, as many as the longest stream has sizes."""
    count = max(len(stream.sizes) for stream in streams)
    tables = []
    for stream in streams:
        times = {nbytes: stream.time(nbytes) for nbytes in stream.sizes}
        tables.append([times[stream.sizes[min(row, len(times) - 1)]] for row in range(count)])
    return tables

"""The sizes of a benchmark: from the first to the last by a step or a factor.

Units are powers of 1024 (``-f 2048`` is ``-f 2kb``). Without a step or a factor, the step is a
tenth of the range, rounded down to whole elements.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Benchmark Configuration.
"""

from __future__ import annotations

import re
from typing import Final

from trnsim.errors import BadInput
from trnsim.tools.nccom.operations import item_bytes

DEFAULT_SIZE: Final = "32M"
"""Default of the first size and of the last."""
MOST_SIZES: Final = 10_000
"""Maximum number of sizes of a benchmark; one byte to 1 GB by steps of a byte are 10**9."""
_MOST_BYTES: Final = 2**60
_EXAMPLES: Final = {"--maxbytes": "64MB", "--stepfactor": "2"}
_DEFAULT_STEPS: Final = 10
_SIZE: Final = re.compile(r"(\d{1,30})\s*(|[kmgt])i?b?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t"))}


def size_bytes(text: str, option: str) -> int:
    """The bytes of a size such as 8, 64KB or 1gb, in powers of 1024.

    Raises:
        BadInput: for another text, no bytes, or more than any memory has.
    """
    match = _SIZE.fullmatch(text.strip())
    nbytes = int(match[1]) * _POWERS[match[2].lower()] if match else 0
    if not 0 < nbytes <= _MOST_BYTES:
        raise BadInput(
            f"{option} {text!r}; legal: a whole number above 0, with KB, MB, GB or TB of powers of "
            f"1024, or without, and at most 2**60 bytes",
            fix=f"for example {option} {_EXAMPLES.get(option, '1KB')}",
        )
    return nbytes


def sizes(
    start: str = DEFAULT_SIZE,
    end: str = DEFAULT_SIZE,
    step: str = "",
    factor: str = "",
    dtype: str = "uint8",
    unit: int = 1,
) -> tuple[int, ...]:
    """The sizes in bytes.

    Args:
        start: the first size.
        end: upper limit of the sizes.
        step: bytes between two sizes; a tenth of the range if neither it nor `factor` is stated.
        factor: ratio of a size to the one before it.
        dtype: data type; each size is a whole number of its elements.
        unit: number of elements of which the default step is a multiple.

    Raises:
        BadInput: for a text that is no size, the first above the last, both a step and a factor,
            a factor below 2, a part of an element, or more than `MOST_SIZES`.
    """
    first, last = size_bytes(start, "--minbytes"), size_bytes(end, "--maxbytes")
    element_bytes = item_bytes(dtype)
    if first > last:
        raise BadInput(
            f"sizes from --minbytes {start} to --maxbytes {end}: the first is the larger",
            fix=f"-b {start} -e {start}" if end == DEFAULT_SIZE else f"-b {end} -e {start}",
        )
    _check_elements("--minbytes", start, first, dtype)
    if step and factor:
        raise BadInput(
            f"--stepbytes {step} and --stepfactor {factor}; legal: one of them", fix="leave one out"
        )
    if factor:
        return _by_factor(first, last, factor)
    if step:
        step_bytes = size_bytes(step, "--stepbytes")
        _check_elements("--stepbytes", step, step_bytes, dtype)
    else:
        step_bytes = (
            max((last - first) // _DEFAULT_STEPS // (unit * element_bytes), 1)
            * unit
            * element_bytes
        )
    count = (last - first) // step_bytes + 1
    if count > MOST_SIZES:
        raise BadInput(
            f"--stepbytes would make {count:,} sizes; legal: at most {MOST_SIZES:,}",
            fix="take a larger step, or --stepfactor 2",
        )
    return tuple(range(first, last + 1, step_bytes))


def _by_factor(first: int, last: int, factor: str) -> tuple[int, ...]:
    ratio = size_bytes(factor, "--stepfactor")
    if ratio == 1:
        raise BadInput("--stepfactor 1; legal: whole numbers from 2 on", fix="for example -f 2")
    series = [first]
    while series[-1] * ratio <= last:
        series.append(series[-1] * ratio)
    return tuple(series)


def _check_elements(option: str, text: str, nbytes: int, dtype: str) -> None:
    element_bytes = item_bytes(dtype)
    if nbytes % element_bytes:
        raise BadInput(
            f"{option} {text}: {nbytes:,} bytes are no whole number of {dtype}; legal: multiples "
            f"of {element_bytes}",
            fix=f"{option} {-(-nbytes // element_bytes) * element_bytes}",
        )

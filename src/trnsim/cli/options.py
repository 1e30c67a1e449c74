"""Options that several commands share, and commands whose options are a dataclass's fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import date
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from trnsim.cli.parsing import Parser
from trnsim.cli.quantity_options import number, whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from trnsim.arch.catalogue import Catalogue

    Options = TypeVar("Options", bound=DataclassInstance)

parser: Final = Parser
"""What the modules of commands call to make their Typer application."""
_Answer = TypeVar("_Answer")
_LONG_DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_SHORT_DTYPES: Final = {long: short for short, long in _LONG_DTYPES.items()}


def command(
    options: type[Options],
) -> Callable[[Callable[[Options], _Answer]], Callable[..., _Answer]]:
    """A decorator for a function of one argument, an `options`, whose fields become CLI options.

    A field of that dataclass is declared like a parameter of a typer command.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]

    def decorate(function: Callable[[Options], _Answer]) -> Callable[..., _Answer]:
        def run(**values: Any) -> _Answer:
            return function(options(**values))

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        vars(run)["__signature__"] = Signature(parameters)  # of which typer makes options
        return run

    return decorate


AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="Prices known on this day; default: today.", metavar="YYYY-MM-DD"),
]


def price_option(default: str | bool = True) -> Any:
    """The declaration of --price; help shows `default` as the kind that it has if left out."""
    return typer.Option(
        "--price",
        help="Purchase kind of all prices: on_demand, capacity_block, spot, ...",
        metavar="KIND",
        show_default=default,
    )


PurchaseKind = Annotated[str, price_option()]
MixedPrices = Annotated[
    bool,
    typer.Option("--mixed-prices", help="Allow two purchase kinds; every line then says so."),
]
Seed = Annotated[int, whole("Seed of all random draws, from 0 on.", minimum=0)]
Lnc = Annotated[
    int | None,
    whole(
        "Physical NeuronCores of a logical one, 1 or 2; default: the chip's usual number.",
        minimum=1,
    ),
]
Folder = Annotated[
    Path, typer.Option("--folder", "--out", help="The folder to write to.", metavar="DIR")
]
KernelName = Annotated[
    str | None,
    typer.Option(
        "--kernel", help="The kernel to call, where the file has several.", metavar="NAME"
    ),
]
KernelInputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--input", help="Arrays for the kernel's arguments, in order.", metavar="FILE.npy..."
    ),
]
Port = Annotated[
    int,
    whole(
        "The port, up to 65535; 0 takes any that is free.",
        "--port",
        "-p",
        minimum=0,
        maximum=65535,
        metavar="PORT",
    ),
]
CallMemory = Annotated[
    int,
    whole(
        "Memory that each process of a call may use for data (Linux).",
        "--memory",
        unit="bytes",
        example="4GiB",
        default="8GiB",
        minimum=1,
    ),
]
OwnPrices = Annotated[
    Path | None,
    typer.Option(
        "--prices", help="A CSV or YAML file of your own prices, which win.", metavar="FILE"
    ),
]


def time_limit_option(default: str) -> Any:
    """The declaration of --time-limit, whose default is a number with a unit."""
    return number(
        "Time after which a call is ended.",
        "--time-limit",
        unit="s",
        example="30s",
        default=default,
        exclusive_minimum=0,
    )


def short_dtype(name: str) -> str:
    """The type that --dtype names, as plans call it; a name of PyTorch or JAX is legal too."""
    return _SHORT_DTYPES.get(name, name)


def long_dtype(name: str) -> str:
    """The type that --dtype names, as PyTorch and JAX call it; a name of plans is legal too."""
    return _LONG_DTYPES.get(name, name)


def catalogue_with(path: Path | None) -> Catalogue:
    """The catalogue; prices of the file that `--prices` names, if any, win over its own."""
    from trnsim.arch.catalogue import catalogue  # noqa: PLC0415
    from trnsim.price import with_own_prices  # noqa: PLC0415

    return catalogue() if path is None else with_own_prices(path)


def day_of(text: str | None, catalogue: Catalogue) -> date:
    """The day that `--as-of` names; today without it.

    Raises:
        BadInput: `text` is no day, or one after today.
    """
    from trnsim.errors import BadInput  # noqa: PLC0415
    from trnsim.price import check_day, today  # noqa: PLC0415

    if text is None:
        return today(catalogue)
    try:
        day = date.fromisoformat(text if len(text) == len("2026-11-21") else "")
    except ValueError:
        raise BadInput(
            f"--as-of is {text!r}; legal: a day up to {today(catalogue)}, as YYYY-MM-DD"
        ) from None
    return check_day(day, catalogue)

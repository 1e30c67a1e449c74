"""An MCP server over stdio: the functions of `trnsim.api` as tools, within the server's bounds.

A tool's schema is made from its function: parameters, types and the sentences of its docstring. An
answer is the JSON of the command; a refusal is an error of the tool, in the command's own words.

Source: modelcontextprotocol.io, specification 2025-06-18, Tools.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

from trnsim import api
from trnsim.api.bounds import Bounds
from trnsim.errors import BadInput, EmulatorError
from trnsim.version import VERSION

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["server", "tool_functions"]

_INSTRUCTIONS: Final = (
    "trnsim emulates AWS Trainium and Inferentia: it runs NKI kernels, checks their values and "
    "legality, and estimates times with P10 and P90, which are estimates and no measurements. "
    "Write a kernel to a file below the folder, check it, profile the report that run stores, "
    "change the line that costs most, and compare with profile_diff. explain says what an "
    "instruction takes and costs. Times in answers are seconds unless a name says otherwise."
)
_BOUNDS: Final = "bounds"
_ITEM: Final = re.compile(r"^ {8}(\w+): ((?:.|\n {12})+)", re.MULTILINE)
"""A parameter in the Args of a docstring."""


def tool_functions() -> dict[str, Callable[..., api.Answer]]:
    """The functions that are tools, by name."""
    names = [name for name in api.__all__ if name[0].islower()]
    return {name: getattr(api, name) for name in names}


def server(bounds: Bounds) -> MCPServer[Any]:
    """The MCP server whose tools run within `bounds`: of folder, time, memory and answer.

    Raises:
        BadInput: the package mcp is not installed.
    """
    try:
        from mcp.server import MCPServer  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise BadInput(f"{error.name} is not installed", fix="pip install 'trnsim[mcp]'") from error
    server: MCPServer[Any] = MCPServer(
        "trnsim", version=VERSION, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    for name, function in tool_functions().items():
        server.add_tool(_tool(function, bounds), name=name, description=_summary(function))
    return server


def _tool(function: Callable[..., api.Answer], bounds: Bounds) -> Callable[..., Any]:
    """A tool that calls a function within bounds, in a thread; the server answers meanwhile."""
    from anyio.to_thread import run_sync  # noqa: PLC0415  comes with mcp
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415  an extra
    from pydantic import Field  # noqa: PLC0415  comes with mcp

    async def tool(**values: Any) -> dict[str, Any]:
        try:
            answer = await run_sync(partial(function, **values, bounds=bounds))
        except EmulatorError as error:
            advice = f"\nfix: {error.fix}" if error.fix else ""
            raise ToolError(f"{error.reason}{advice}") from error
        return {"answer": answer.values, "status": answer.status, "messages": answer.messages}

    hints, descriptions = get_type_hints(function), _descriptions(function)
    parameters = [
        parameter.replace(
            annotation=Annotated[hints[name], Field(description=descriptions[name])],
            kind=inspect.Parameter.KEYWORD_ONLY,
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if name != _BOUNDS
    ]
    signature = inspect.Signature(parameters, return_annotation=dict[str, Any])
    tool.__signature__ = signature  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    tool.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return tool


def _summary(function: Callable[..., Any]) -> str:
    """The docstring of a function up to its Args."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.partition("\nArgs:")[0].split())


def _descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """The description of each parameter in the docstring of a function."""
    args = (function.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    return {name: " ".join(text.split()) for name, text in _ITEM.findall(args)}

"""Options that the commands of `trnsim k8s` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str | None,
    typer.Option(
        help="The API's address; default: that of the pod in which the command runs.",
        metavar="https://HOST:PORT",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="A file with the token that opens the API.", metavar="FILE"),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", help="A file with the certificates of the API's authority.", metavar="FILE"
    ),
]
NodeName = Annotated[
    str | None,
    typer.Option(
        "--node",
        help="This node's name in the cluster; default: NODE_NAME, else the machine's name.",
        metavar="NAME",
    ),
]
PodResourcesSocket = Annotated[
    Path,
    typer.Option(
        "--pod-resources",
        help="Kubelet's socket that says what each container holds.",
        metavar="SOCKET",
    ),
]

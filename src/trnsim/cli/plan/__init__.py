"""``trnsim plan``: time and USD of training or serving, platform by platform. A command a file."""

from __future__ import annotations

from trnsim.cli.options import parser
from trnsim.cli.plan import collective, fleet, infer, layer, serve, train

app = parser(
    help="Estimate time and USD of training or serving a model, platform by platform.",
    no_args_is_help=True,
)
app.command("train")(train.train)
app.command("serve")(serve.serve)
app.command("fleet")(fleet.fleet)
app.command("infer")(infer.infer)
app.command("collective")(collective.collective)
app.command("layer")(layer.layer)

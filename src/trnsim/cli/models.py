"""``trnsim models``: the models whose names stand for a config.json."""

from __future__ import annotations

from typing import Any, Final

from trnsim.cli.options import parser
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.workload.config import read
from trnsim.workload.model_names import ShippedModel, shipped
from trnsim.workload.resident import active_parameters, parameters

app = parser()

_COLUMNS: Final = columns(
    "name | family | parameters | active | layers | heads | KV heads | context", numbers_from=2
)
_BILLION: Final = 1e9
_NOTES: Final = (
    "parameters, active: billions; active: those that a token uses, in a mixture of experts.",
    "Active parameters count the whole input embedding, which gpt-oss's card leaves out.",
    "A name stands for weights of the same shape too, such as llama-3.1-8b-instruct.",
    "An id, such as meta-llama/Llama-3.1-8B, is looked for in Hugging Face's cache first.",
)


@app.command()
@answering
def models() -> Document:
    """List the models that commands take by name, with parameters, layers, heads and context.

    Their configurations ship with trnsim: sizes, no weights. Any other model is named by its id,
    where Hugging Face's cache has its config.json, or by the path of one.

    Example: trnsim models --json
    """
    values = [_values(model) for model in shipped()]
    sections = [
        Section("Models", [Table(_COLUMNS, [_row(value) for value in values])]),
        Section("", [Note(text) for text in _NOTES]),
    ]
    return Document("Models", values, sections, schema="models/1")


def _values(model: ShippedModel) -> dict[str, Any]:
    """The JSON of a model; layers and heads are its last tower's, such as a decoder's."""
    architecture = read(model.file)
    decoder = architecture.decoder
    attention = next(form for layer in decoder.layers for form in layer.attentions)
    return {
        **picked(model, "name id family also"),
        "model_type": architecture.model_type,
        "parameters": parameters(architecture),
        "active_parameters": active_parameters(architecture),
        "layers": decoder.depth,
        "heads": attention.heads,
        "kv_heads": getattr(attention, "kv_heads", None),  # latent attention keeps no heads
        "tokens": architecture.max_positions or None,  # the longest context
        "published_parameters": model.parameters,
        "published_where": model.where,
    }


def _row(value: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table, from the values of a model."""
    tokens = value["tokens"]
    active = value["active_parameters"]
    return (
        value["name"],
        value["family"],
        f"{value['parameters'] / _BILLION:.3g}",
        "" if active == value["parameters"] else f"{active / _BILLION:.3g}",
        str(value["layers"]),
        str(value["heads"]),
        "-" if value["kv_heads"] is None else str(value["kv_heads"]),
        "-" if tokens is None else f"{tokens:,}",
    )

"""The server by the protocol's own client, in this process and over stdio."""

import os
import sys

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from trnsim import api
from trnsim.api.bounds import Bounds
from trnsim.api.server import server, tool_functions

NAMES = {"run", "check", "tune", "explain", "profile", "profile_diff"} | {
    f"plan_{kind}" for kind in ("train", "infer", "serve", "collective")
}


def asked(client, question):
    """What a session of a client answers to a question."""

    async def session():
        async with client as connected:
            return await question(connected)

    return anyio.run(session)


def test_every_function_is_a_tool_whose_parameters_are_told(tmp_path):
    tools = asked(Client(server(Bounds(folder=tmp_path))), lambda c: c.list_tools()).tools
    assert {tool.name for tool in tools} == NAMES == set(tool_functions())
    for tool in tools:
        assert tool.description
        assert "Args" not in tool.description
        assert "bounds" not in tool.input_schema["properties"]
        for name, schema in tool.input_schema["properties"].items():
            assert schema["description"], (tool.name, name)
    (run,) = [tool.input_schema for tool in tools if tool.name == "run"]
    assert run["required"] == ["file"]
    assert run["properties"]["arguments"]["items"] == {"type": "string"}


OUTSIDE = {
    "run": {"file": "../a.py"},
    "check": {"file": "/etc/passwd"},
    "tune": {"file": "../k.py"},
    "explain": {"name": "--output=/x"},
    "profile": {"report": "../r.json"},
    "profile_diff": {"before": "no.json", "after": "../x"},
    "plan_train": {"model": "../config.json"},
    "plan_infer": {"model": "../config.json"},
    "plan_serve": {"model": "--help"},
    "plan_collective": {"kind": "--help", "size_bytes": 1},
}
MALFORMED = [("run", {}), ("explain", {"name": []}), ("plan_train", {"model": "x", "tp": "many"})]
WRONG = [
    ("run", {"file": "no.py"}, "no.py"),
    ("check", {"file": "empty.py"}, "no kernel"),
    ("tune", {"file": "empty.py"}, "no kernel"),
    ("explain", {"name": "nonsense"}, "near: "),
    ("profile", {"report": "no.json"}, "no.json"),
    ("profile_diff", {"before": "no.json", "after": "no.json"}, "no.json"),
    ("plan_train", {"model": "nobody"}, "nobody"),
    ("plan_infer", {"model": "no.json"}, "no.json"),
    ("plan_serve", {"model": "nobody"}, "nobody"),
    ("plan_collective", {"kind": "all", "size_bytes": 1}, "all_reduce"),
]


def errors_of(folder, questions):
    """The texts of the errors that tools answer."""

    async def every(client):
        return [await client.call_tool(name, arguments) for name, arguments in questions]

    answers = asked(Client(server(Bounds(folder=folder))), every)
    assert all(answer.is_error for answer in answers)
    return [answer.content[0].text for answer in answers]


def test_what_leads_out_of_the_folder_or_is_no_value_is_an_error_of_the_tool(tmp_path):
    assert set(OUTSIDE) == NAMES
    for text in errors_of(tmp_path, OUTSIDE.items()):
        assert "outside of" in text or "begins with a dash" in text
    for text in errors_of(tmp_path, MALFORMED):
        assert "validation error" in text


@pytest.mark.slow
def test_a_refusal_of_the_command_is_an_error_of_the_tool_in_its_words(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert {name for name, *_ in WRONG} == NAMES
    texts = errors_of(tmp_path, [(name, arguments) for name, arguments, _ in WRONG])
    for (name, _, words), text in zip(WRONG, texts, strict=True):
        assert words in text, name


@pytest.mark.slow
def test_a_tool_answers_as_its_function(tmp_path):
    bounds = Bounds(folder=tmp_path)
    question = {"kind": "all_reduce", "size_bytes": 1 << 20, "on": ["trn2.48xlarge"], "ranks": 64}
    answer = asked(
        Client(server(bounds)), lambda client: client.call_tool("plan_collective", question)
    )
    assert not answer.is_error
    assert answer.structured_content["answer"] == api.plan_collective(**question).values


@pytest.mark.slow
def test_a_client_starts_the_command_and_limits_hold_over_stdio(tmp_path):
    (tmp_path / "loop.py").write_text("while True:\n    pass\n")
    words = ["-m", "trnsim", "mcp", "--root", str(tmp_path), "--time-limit", "20s"]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def question(client):
        ended = await client.call_tool("run", {"file": "loop.py"})
        return ended, await client.call_tool("explain", {"name": "trn2"})

    ended, after = asked(Client(stdio_client(parameters)), question)
    assert "trnsim run took longer than 20 s and was ended" in ended.content[0].text
    assert not after.is_error

"""The program that a report shows."""

from dataclasses import replace

import pytest
from layered_graphs import layered

from trnsim.compiler import compile as compile_graph
from trnsim.compiler.compilation import time_on_cores
from trnsim.compiler.reports import reported_run as reported
from trnsim.compiler.reports.reported_run import reported_run
from trnsim.errors import BadInput, OutOfMemory, SourceLine
from trnsim.graph import Graph, Origin
from trnsim.graph.ops.control_flow import If
from trnsim.lower.emit.schedule import KIB, SbufSchedule
from trnsim.lower.program import trace_without_values


def test_it_is_that_of_the_layers_that_were_compiled():
    graph, weights = layered(10, width=256)
    few, _ = layered(4, width=256)
    made = compile_graph(graph, weights=weights)
    run = reported_run(graph, made, "stack", weights)
    alone = compile_graph(few, weights=weights)
    assert run.title == "stack"
    assert len(run.program) == alone.instructions < made.instructions


def test_its_lines_are_those_that_operations_came_from():
    graph, weights = layered(3, width=256)
    lines = [SourceLine("net.py", place) for place, _ in enumerate(graph.nodes)]
    nodes = [
        replace(node, origin=Origin("", "", line))
        for node, line in zip(graph.nodes, lines, strict=True)
    ]
    graph = Graph(graph.inputs, nodes, graph.outputs)
    program = reported_run(graph, compile_graph(graph, weights=weights), "stack", weights).program
    assert set(program.lines) <= set(lines)
    assert len(program.line_of) == len(program)
    products = {lines[place] for place, node in enumerate(nodes) if node.name == "dot_general"}
    matmuls = [i for i in range(len(program)) if program.instruction(i).opcode == "nc_matmul"]
    assert {program.line(i) for i in matmuls} == products


def test_operations_of_unknown_origin_have_no_line():
    graph, weights = layered(3, width=256)
    program = reported_run(graph, compile_graph(graph, weights=weights), "stack", weights).program
    assert program.lines == []
    assert set(program.line_of) == {-1}


def test_it_has_the_schedule_that_was_fastest(monkeypatch):
    graph, weights = layered(3, width=256)
    made = compile_graph(graph, weights=weights)
    fastest = SbufSchedule(40 * KIB)

    def timed_with_it(*args):
        timed = time_on_cores(*args)
        return replace(timed, figures=replace(timed.figures, schedule=fastest))

    schedules = []

    def traced(*args, **options):
        schedules.append(options.get("schedule"))
        return trace_without_values(*args, **options)

    monkeypatch.setattr(reported, "time_on_cores", timed_with_it)
    monkeypatch.setattr(reported, "trace_without_values", traced)
    reported_run(graph, made, "stack", weights)
    assert schedules == [fastest]


def test_branches_alone_have_no_program():
    branch = Graph()
    branch.outputs = [branch.elementwise("relu", branch.input((4,), "float32"))]
    g = Graph()
    flag, x = g.input((), "bool"), g.input((4,), "float32")
    g.outputs = [g.apply(If((branch, branch)), flag, x)]
    made = compile_graph(g)
    with pytest.raises(BadInput, match="net has no program to show: branches, loops and kernels"):
        reported_run(g, made, "net", ())


def test_what_is_not_one_program_says_why(monkeypatch):
    def refuse(*_, **__):
        raise OutOfMemory("SBUF is full")

    graph, weights = layered(3, width=256)
    made = compile_graph(graph, weights=weights)
    monkeypatch.setattr("trnsim.compiler.reports.reported_run.trace_without_values", refuse)
    with pytest.raises(BadInput, match="net has no whole program to show: SBUF is"):
        reported_run(graph, made, "net", weights)

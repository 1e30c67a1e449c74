from trnsim.graph import Graph, groups


def softmax(g, x):
    largest = g.broadcast_in_dim(g.reduce("maximum", x, (1,)), x.shape, (0,))
    powers = g.elementwise("exponential", g.elementwise("subtract", x, largest))
    total = g.broadcast_in_dim(g.reduce("add", powers, (1,)), x.shape, (0,))
    return g.elementwise("divide", powers, total)


def test_a_softmax_is_one_kernel():
    g = Graph()
    g.outputs = [softmax(g, g.input((4, 8), "float32"))]
    (group,) = groups(g)
    assert group.name == "reduce+subtract+exponential+divide"
    assert (group.shape, group.columns) == ((4, 8), 1)


def test_a_product_stands_alone_and_what_follows_is_another_kernel():
    g = Graph()
    product = g.dot_general(g.input((4, 8), "float32"), g.input((8, 4), "float32"), (1, 0))
    g.outputs = [g.elementwise("tanh", g.elementwise("add", product, 1.0))]
    assert [group.name for group in groups(g)] == ["dot_general", "add+tanh"]


def test_what_reads_a_reshaped_result_comes_after_it():
    g = Graph()
    doubled = g.elementwise("multiply", g.input((4, 8), "float32"), 2.0)
    g.outputs = [g.elementwise("abs", g.reshape(doubled, (32,)))]
    assert [group.name for group in groups(g)] == ["multiply", "abs"]


def test_no_kernel_waits_for_a_later_one():
    g = Graph()
    x, w = g.input((8, 8), "float32"), g.input((8, 8), "float32")
    first = g.elementwise("tanh", x)
    product = g.dot_general(first, w, (1, 0))
    g.outputs = [g.elementwise("add", first, g.elementwise("abs", product))]
    done = {value.number for value in g.inputs}
    for group in groups(g):
        assert {value.number for value in group.inputs} <= done
        done |= {value.number for value in group.outputs}


def test_counts_are_made_where_they_are_read():
    g = Graph()
    x = g.input((4, 8), "float32")
    place = g.iota((4, 8), 1)
    g.outputs = [g.elementwise("add", x, place)]
    assert [group.name for group in groups(g)] == ["iota+add"]


def test_what_another_kernel_reads_is_made_before_it():
    g = Graph()
    g.outputs = [g.transpose(g.rng((4, 8)), (1, 0))]
    assert [group.name for group in groups(g)] == ["rng", "transpose"]

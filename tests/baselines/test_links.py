"""Links as constraints: the graph, its articles and sources, the two sides, the negatives, and the task on held-out pages."""

import json

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn.links import Side, read_graph, split
from harp_jax.baselines.linklearn.train import Task
from tests.support.linked_topics import PAGES


def test_links_go_both_ways_and_follow_redirects(graph):
    numbers = {docid: n for n, docid in enumerate(graph.docids)}
    start = {n: set(graph.neighbours[graph.starts[n] : graph.starts[n + 1]].tolist()) for n in range(2 * PAGES)}
    assert start[numbers["page31"]] == {numbers[f"lead{n}"] for n in (121, 151, 181, 211, 120)}
    assert numbers["page31"] in start[numbers["lead151"]]
    assert len(start[numbers["lead120"]]) == PAGES


def test_links_lead_to_the_first_of_documents_with_one_id(tmp_path):
    linked = [("row", "b"), ("b", None), ("row", "b"), ("c", "row")]
    rows = [{"id": d, "text": d, "links": [{"target": other}] if other else []} for d, other in linked]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph = read_graph((str(tmp_path / "docs.jsonl"),), (), "")
    assert [graph.linked(d).tolist() for d in range(4)] == [[1, 3], [0, 2], [1], [0]]


def test_sides_are_disjoint_and_no_link_crosses(graph):
    training, validation = split(graph, 0.5, 0)
    assert not set(training.documents) & set(validation.documents)
    assert len(training.documents) + len(validation.documents) == 2 * PAGES
    for side in (training, validation):
        assert np.isin(side.edges, side.documents).all() and len(side.edges)
        for d in side.queries[:20]:
            assert set(side.linked(d)) == {
                n for n in graph.neighbours[graph.starts[d] : graph.starts[d + 1]] if n in set(side.documents)
            }


@pytest.mark.parametrize("source", ["uniform", "linked"])
def test_negatives_follow_their_distribution(graph, source):
    from scipy.stats import chisquare

    training, _ = split(graph, 0.5, 0)
    d, positive, negative = training.draw(generator("draw"), 4000, 3, source)
    for q, p, n in zip(d[:300], positive, negative):
        linked = set(training.linked(q))
        assert p in linked and not linked & set(n) and q not in n
        assert (graph.source[n] == graph.source[p]).all()
    # d uniform over documents with links, and for one d the negatives as their pool says.
    counts = np.bincount(np.searchsorted(training.queries, d), minlength=len(training.queries))
    assert chisquare(counts).pvalue > 1e-3
    q = d[0]
    kind = graph.source[training.linked(q)[0]]
    allowed = [n for n in training.documents if graph.source[n] == kind and n != q and n not in set(training.linked(q))]
    weight = np.array([len(training.linked(n)) if source == "linked" else 1 for n in allowed], float)
    chosen = [n for a, ns in zip(d, negative) for n in ns if a == q and graph.source[n] == kind]
    more = [training.draw(generator("more", i), 4000, 3, source) for i in range(3)]
    chosen += [n for a, _, b in more for x, ns in zip(a, b) for n in ns if x == q and graph.source[n] == kind]
    found = np.array([chosen.count(n) for n in allowed], float)
    expected = weight / weight.sum() * found.sum()
    assert chisquare(found[expected > 0], expected[expected > 0]).pvalue > 1e-3 and found[expected == 0].sum() == 0


def test_shards_of_one_glob_are_one_source(wiki, graph, tmp_path):
    for name in ("pages", "leads"):
        rows = (wiki / f"{name}.jsonl").read_text().splitlines(keepends=True)
        for shard in range(4):
            (tmp_path / f"{name}-{shard}.jsonl").write_text("".join(rows[30 * shard : 30 * shard + 30]))
    many = read_graph((f"{tmp_path}/pages-*", f"{tmp_path}/leads-*"), (str(wiki / "redirects.tsv"),), "")
    assert graph.docids == many.docids
    np.testing.assert_array_equal(graph.source, many.source)


def test_an_article_keeps_to_one_side_and_is_no_negative_of_itself(tmp_path):
    """Pages with their leads and two rows each; page n links to the leads of n, n + 1 and n + 2."""
    pages, leads, size = [], [], 200
    for n in range(size):
        links = [{"target": f"lead{(n + step) % size}"} for step in range(3)]
        pages.append({"id": f"page{n}", "title": f"Title {n}", "text": f"a{n}", "links": links})
        pages += [{"id": f"row{n}#{i}", "title": f"Title {n}", "text": f"b{n}", "links": links} for i in range(2)]
        leads.append({"id": f"lead{n}", "title": f"Title {n} ", "text": f"c{n}"})
    for name, rows in (("pages", pages), ("leads", leads)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph = read_graph((f"{tmp_path}/pages.jsonl", f"{tmp_path}/leads.jsonl"), (), "")
    number = np.array([*np.repeat(np.arange(size), 3), *range(size)])
    assert sorted(number[graph.linked(0)]) == [1, 2]
    training, validation = split(graph, 0.5, 0)
    assert not set(number[training.documents]) & set(number[validation.documents])
    d, _, negative = training.draw(generator("articles"), 3000, 3)
    assert (number[d][:, None] != number[negative]).all()
    task = Task(validation, 50, 10_000, 0)
    for d in task.queries.tolist():
        # All of the article are above all that is relevant, yet the relevant ones come first of the candidates.
        own = number[task.index.rows] == number[d]
        scores = np.where(own, 2.0, np.isin(task.index.rows, validation.linked(d)).astype(float))
        assert task.precision(d, scores) == 1.0


def linked_documents(path, links):
    """docs.jsonl of {id: ids it links to}, of which each id is its text."""
    rows = [{"id": d, "text": d, "links": [{"target": other} for other in others]} for d, others in links.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_another_document_is_drawn_for_one_that_is_linked_with_all(tmp_path):
    links = {"hub": [f"d{i}" for i in range(20)]} | {f"d{i}": [f"d{i - i % 2}"] for i in range(20)}
    graph = read_graph((linked_documents(tmp_path / "docs.jsonl", links),), (), "")
    side = Side(graph, np.arange(21))
    for source in ("uniform", "linked"):
        drawn = [side.draw(generator("hub"), 300, 3, source) for _ in range(2)]
        np.testing.assert_array_equal(drawn[0][2], drawn[1][2])
        d, positive, negative = drawn[0]
        assert set(d) == set(range(1, 21)) and 0 in positive
        assert all(p in side.linked(q) and not set(n) & {q, *side.linked(q)} for q, p, n in zip(d, positive, negative))
    everyone = {f"d{i}": [f"d{n}" for n in range(6)] for i in range(6)}
    full = read_graph((linked_documents(tmp_path / "full.jsonl", everyone),), (), "")
    with pytest.raises(InputError, match="each is linked with nearly all others, as is d"):
        Side(full, np.arange(6)).draw(generator("full"), 4, 2)


def test_average_precision_of_the_task_equals_ir_measures(graph):
    import ir_measures

    _, validation = split(graph, 0.5, 0)
    task = Task(validation, 10, 10_000, 0)
    scores = generator("scores").standard_normal(len(task.index.rows)).astype(np.float32)
    for d in task.queries.tolist():
        linked = set(validation.linked(d).tolist())
        sources = {graph.source[n] for n in linked}
        run = {str(n): float(s) for n, s in zip(task.index.rows, scores) if n != d and graph.source[n] in sources}
        expected = ir_measures.calc_aggregate([ir_measures.AP], {"q": {str(n): 1 for n in linked}}, {"q": run})
        assert task.precision(d, scores) == pytest.approx(expected[ir_measures.AP])


def test_bad_links_are_named(tmp_path):
    row = '{"id": "a", "text": "x", "links": [{"target": "b"}]}\n'
    for text, message in (
        (row, "none of 1 links leads to another"),
        (row + '{"id": "b", "text": null}', "line 2: text is null"),
    ):
        (tmp_path / "docs.jsonl").write_text(text)
        with pytest.raises(InputError, match=message):
            read_graph((str(tmp_path / "docs.jsonl"),))

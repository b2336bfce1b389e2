"""Reference implementations of the neural rankers with loops and numpy: one (query, document) pair at a time, no padding."""

import numpy as np


def cosine(a, b):
    norms = np.sqrt((a**2).sum() * (b**2).sum())
    return 0.0 if norms == 0 else float((a * b).sum() / norms)


def dense(p, x):
    return x @ p["kernel"] + p.get("bias", 0.0)


def kernels(match):
    """`match`: one list of similarities per query item."""
    levels = [(-0.9 + 0.2 * k, 0.1) for k in range(10)] + [(1.0, 0.001)]
    features = []
    for mu, sigma in levels:
        total = 0.0
        for row in match:
            count = sum(np.exp(-((m - mu) ** 2) / (2 * sigma**2)) for m in row)
            total += 0.01 * np.log(max(count, 1e-10))
        features.append(total)
    return np.array(features)


def knrm(p, query, document):
    table = p["vectors"]
    match = [[cosine(table[q], table[d]) for d in document] for q in query]
    return float(dense(p["score"], kernels(match))[0])


def conv_knrm(p, query, document, ngrams):
    table, features = p["vectors"], []
    for nq in range(1, ngrams + 1):
        for nd in range(1, ngrams + 1):
            grams = []
            for n, text in ((nq, query), (nd, document)):
                rows = []
                for i in range(len(text) - n + 1):
                    value = sum(table[text[i + k]] @ p[f"kernel_{n}"][k] for k in range(n)) + p[f"bias_{n}"]
                    rows.append(np.maximum(value, 0.0))
                grams.append(rows)
            features.append(kernels([[cosine(q, d) for d in grams[1]] for q in grams[0]]))
    return float(dense(p["score"], np.concatenate(features))[0])


def drmm(p, query, document, idf, bins):
    table, scores, weights = p["vectors"], [], []
    for q in query:
        histogram = np.zeros(bins)
        for d in document:
            if d == q:
                histogram[bins - 1] += 1
            else:
                width = 2.0 / (bins - 1)
                histogram[min(int((cosine(table[q], table[d]) + 1.0) / width), bins - 2)] += 1
        hidden = np.tanh(dense(p["network_in"], np.log(histogram + 1)))
        scores.append(np.tanh(dense(p["network_out"], hidden))[0])
        known = np.array([idf[q]])
        weights.append(np.exp(dense(p["gate"], known)[0]))
    return float(np.dot(weights, scores) / np.sum(weights))


def duet(p, query, document, words, graphs, query_length, document_length, pool):
    """`words`: id → list of n-graph numbers (from 0)."""
    seen = np.zeros((query_length, p["local_conv"]["kernel"].shape[1]))
    for i, q in enumerate(query):
        row = np.zeros(document_length)
        row[[j for j, d in enumerate(document) if d == q]] = 1.0
        seen[i] = np.tanh(dense(p["local_conv"], row))
    local = _three(p, "local", seen.reshape(-1))

    def trigrams(text, side):
        counts = np.zeros((len(text) + 2, graphs))
        for i, word in enumerate(text):
            for graph in words[word]:
                counts[i + 1, graph] += 1
        kernel = p[f"{side}_conv"]
        rows = [sum(counts[i + k] @ kernel[k] for k in range(3)) for i in range(len(text))]
        return np.tanh(np.array(rows) + p[f"{side}_conv_bias"])

    q = np.tanh(dense(p["query_dense"], trigrams(query, "query").max(axis=0)))
    d = trigrams(document, "document")
    windows = []
    for start in range(document_length - pool + 1):
        part = d[start : start + pool]
        windows.append(q * np.tanh(dense(p["document_dense"], part.max(axis=0))) if len(part) else np.zeros(len(q)))
    return local + _three(p, "distributed", np.concatenate(windows))


def _three(p, name, x):
    x = np.tanh(dense(p[f"{name}_hidden_1"], x))
    x = np.tanh(dense(p[f"{name}_hidden_2"], x))
    return float(dense(p[f"{name}_score"], x)[0])

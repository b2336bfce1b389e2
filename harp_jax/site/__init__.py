"""A site's own search: `harp site` reads pages, embeds, tests, and trains if asked; `harp search`, `serve`, `look`, `pack` use it.

In: pages with links (HTML, WARC, MediaWiki, JSONL), a sentence encoder, labels.
Out: one folder with everything that a search needs, a verdict and a report.
Imports: base, config, corpus, text, input, checkpoints, evaluation, ranking, training; data_pipeline inside functions.
Files: `options` (each declared once), `build` (from pages to verdict), `pages` (documents, anchor texts, test queries; `Site`),
`search` (the weighted sum of all parts), `verdict` (tests it on judged queries: which parts to use), `ranker` (training of a ranker
or of the encoder), `tune` (weights by judged queries), `pack` and `packed_search` (the site for other search engines).
"""

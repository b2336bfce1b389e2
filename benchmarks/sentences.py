"""Sentence splitting: megabytes of UTF-8 text per second and core, for paragraphs with links.

python benchmarks/sentences.py --documents=linked_pages.jsonl.xz

The documents are linked JSONL. Prints "N MB/s per core (M MB, S sentences)", the best of three passes.
"""

import argparse
import time

from data_pipeline.sources import formats
from data_pipeline.text.sentences import sentences


def linked_paragraphs(path: str) -> list[str]:
    source = {"format": "linked_jsonl", "paths": (path,), "redirects": (), "max_page_bytes": 2 << 20}
    found = []
    for chunk in formats.chunks(source):
        for document in formats.parse(chunk, source)[0]:
            starts = {document.text.rfind("\n", 0, link.start) + 1 for link in document.links}
            found += [document.text[start:].partition("\n")[0] for start in sorted(starts)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", required=True)
    paragraphs = linked_paragraphs(parser.parse_args().documents)
    size = sum(len(paragraph.encode()) for paragraph in paragraphs) / 1e6
    rates = []
    for _ in range(3):
        start = time.process_time()
        count = sum(len(sentences(paragraph)) for paragraph in paragraphs)
        rates.append(size / (time.process_time() - start))
    print(f"{max(rates):.1f} MB/s per core ({size:.1f} MB, {count:,} sentences)")


if __name__ == "__main__":
    main()

"""Dump to linked documents: megabytes of decompressed XML per second and core, and peak memory at two sizes.

python benchmarks/dump.py --dump=enwiki-excerpt.xml.bz2 [--megabytes=60]

The pages of the dump are repeated to at least `megabytes` and to ten times that; each size is read in a fresh process, from
bzip2 to plain text with links, sections and redirects. Prints for each "60 MB: N MB/s per core (P with decompression), peak RSS M
MiB", and the ratio of the peaks. Link targets of repeated pages are cached; the first line, a single pass over the pages, is the
rate without this.
"""

import argparse
import bz2
import multiprocessing
import os
import resource
import tempfile
import time

from data_pipeline.sources import formats
from harp_jax.base.files import open_bytes


def repeat(dump: str, path: str, megabytes: float) -> None:
    """Writes a dump that repeats the pages, one bzip2 stream per repetition; `megabytes` = 0: once."""
    with open_bytes(dump) as file:
        text = file.read()
    start, end = text.index(b"<page>"), text.rindex(b"</page>") + len(b"</page>")
    times = max(1, -int(-megabytes * 1e6 // (end - start)))
    pages = bz2.compress(text[start:end] + b"\n")
    with open(path, "wb") as file:
        file.write(bz2.compress(text[:start]))
        for _ in range(times):
            file.write(pages)
        file.write(bz2.compress(text[end:]))


def measure(path: str) -> tuple[float, float, float, float, int, int]:
    """Decompressed MB, CPU seconds in total and of parsing, peak RSS in MiB, documents, links; for a fresh process."""
    source = {"format": "mediawiki", "paths": (path,), "redirects": (), "max_page_bytes": 2 << 20}
    size, documents, links, parsing = 0, 0, 0, 0.0
    start = time.process_time()
    for chunk in formats.chunks(source):
        size += len(chunk.payload.pages)
        before = time.process_time()
        found, _ = formats.parse(chunk, source)
        parsing += time.process_time() - before
        documents += len(found)
        links += sum(len(document.links) for document in found)
    seconds = time.process_time() - start
    return size / 1e6, seconds, parsing, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, documents, links


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--megabytes", type=float, default=60)
    args = parser.parse_args()
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in (0, args.megabytes, 10 * args.megabytes):
            path = os.path.join(folder, "dump.xml.bz2")
            repeat(args.dump, path, megabytes)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                size, seconds, parsing, peak, documents, links = pool.apply(measure, (path,))
            peaks.append(peak)
            print(
                f"{size:.0f} MB: {size / parsing:.1f} MB/s per core ({size / seconds:.1f} with decompression), "
                f"peak RSS {peak:.0f} MiB, {documents:,} documents, {links:,} links",
                flush=True,
            )
    print(f"peak RSS at 10x the input: {peaks[2] / peaks[1]:.3f} of that at 1x")


if __name__ == "__main__":
    main()

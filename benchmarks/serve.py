"""`harp serve` under load, on the loopback interface: latency, requests per second and memory of each worker.

python benchmarks/serve.py x --workers=2

x is an output of `harp site`. Starts the server and sends the site's test queries (or --queries), --at_once requests at a time,
each on its own connection. Prints the seconds until it answers, p50 and p99 of the latency alone and at once, requests per second,
and for each worker its resident memory and its share of it (Pss counts what n processes map as 1/n), in MB. Linux only.
"""

import argparse
import http.client
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from harp_jax.corpus.trec import read_queries


def ask(port: int, query: str) -> float:
    """The milliseconds of a search, with its connection."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/search?" + urllib.parse.urlencode({"q": query}))
    answer = connection.getresponse()
    json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status} for {query!r}")
    return 1e3 * (time.perf_counter() - began)


def load(port: int, queries: list[str], at_once: int) -> str:
    """Sends the queries and says how long they took."""
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        times = sorted(pool.map(lambda query: ask(port, query), queries))
    rate = len(times) / (time.perf_counter() - began)
    p50, p99 = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99))
    return f"{at_once:3d} at once: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {rate:.0f} requests/s ({len(times)} requests)"


def memory(pid: int) -> str:
    """Resident memory of a process, and its share of it."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1e3 for line in file if line.startswith(("Rss", "Pss:"))}
    return f"worker {pid}: {sizes['Rss']:.0f} MB resident, share {sizes['Pss']:.0f} MB"


def workers_of(pid: int) -> list[int]:
    """The server's workers: its spawned processes, or itself."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    spawned = [child for child in children if b"spawn_main" in open(f"/proc/{child}/cmdline", "rb").read()]
    return spawned or [pid]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--queries", default="")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--at_once", type=int, default=50)
    a = parser.parse_args()
    texts = [*read_queries(a.queries or os.path.join(a.site, "pages", "queries.tsv")).values()]
    queries = [*itertools.islice(itertools.cycle(texts), a.requests)]
    command = [sys.executable, "-m", "harp_jax", "serve", a.site, "--port=0", f"--workers={a.workers}"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().split()[0].rpartition(":")[2])
            load(port, queries[: 4 * a.workers], 2 * a.workers)  # until every worker answers
            print(f"ready after {time.perf_counter() - began:.0f} s")
            print(load(port, queries[: a.requests // 5], 1))
            print(load(port, queries, a.at_once))
            print("\n".join(map(memory, workers_of(server.pid))))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()

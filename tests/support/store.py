"""An object store in memory that answers gcsfs and TensorStore as Google Cloud Storage does: `python -m tests.support.store PORT`.

Whole objects with generations and preconditions; no rename, append or folders. One bucket, with any name.
"""

import itertools
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

OBJECTS: dict[str, tuple[int, bytes]] = {}  # name → generation, content
GENERATIONS = itertools.count(1001)
LOCK = threading.Lock()


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's delayed ACK of its headers

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: object = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        given = dict(parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = unquote(url.path.partition("/o/")[2])
        with LOCK:
            if url.path.startswith("/upload"):
                self.upload(given, body)
            elif name:
                self.object(name, given)
            elif url.path.endswith("/o"):
                self.listed(given)
            else:
                self.answer(200, {"name": "bucket", "location": "US"})

    do_POST = do_PUT = do_DELETE = do_GET

    def upload(self, given: dict[str, str], body: bytes) -> None:
        if given["uploadType"] == "resumable" and "upload_id" not in given:  # gcsfs: first the name, then the content
            name = given.get("name") or json.loads(body)["name"]
            path = self.path.partition("?")[0]
            self.answer(200, Location=f"http://{self.headers['Host']}{path}?uploadType=resumable&upload_id={name}")
            return
        name = given.get("name") or given["upload_id"]
        now = OBJECTS.get(name, (0, b""))[0]
        if int(given.get("ifGenerationMatch", now)) != now:
            self.answer(412)
            return
        OBJECTS[name] = (next(GENERATIONS), body)
        self.answer(200, self.described(name))

    def object(self, name: str, given: dict[str, str]) -> None:
        if name not in OBJECTS:
            self.answer(404)
            return
        generation, content = OBJECTS[name]
        if self.command == "DELETE":
            del OBJECTS[name]
            self.answer(204)
        elif int(given.get("ifGenerationMatch", generation)) != generation:
            self.answer(412)
        elif given.get("alt") != "media":
            self.answer(200, self.described(name))
        elif part := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
            span = {"Content_Range": f"bytes {first}-{last}/{len(content)}", "X_Goog_Generation": str(generation)}
            self.answer(206, content[first : last + 1], **span)
        else:
            self.answer(200, content, X_Goog_Generation=str(generation))

    def described(self, name: str) -> dict[str, str]:
        generation, content = OBJECTS[name]
        times = dict.fromkeys(("timeCreated", "updated"), "2026-01-01T00:00:00.000Z")
        return {"name": name, "bucket": "bucket", "size": str(len(content)), "generation": str(generation), **times}

    def listed(self, given: dict[str, str]) -> None:
        prefix, delimiter = given.get("prefix", ""), given.get("delimiter", "")
        names = [name for name in sorted(OBJECTS) if name.startswith(prefix)]
        names = [name for name in names if given.get("startOffset", "") <= name < given.get("endOffset", "\U0010ffff")]
        folders = {
            prefix + name.removeprefix(prefix).partition(delimiter)[0] + delimiter
            for name in names
            if delimiter and delimiter in name.removeprefix(prefix)
        }
        items = [self.described(name) for name in names if not name.startswith(tuple(folders))]
        self.answer(200, {"items": items, "prefixes": sorted(folders)})


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Store).serve_forever()

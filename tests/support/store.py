"""An object store in memory that answers gcsfs and TensorStore as Google Cloud Storage does: `python -m tests.support.store PORT`.

Whole objects with generations and preconditions; no rename, append or folders. One bucket, with any name.
"""

import json
import re
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

OBJECTS: dict[str, tuple[int, bytes]] = {}  # name → generation, content
UPLOADS: dict[str, str] = {}  # upload id → object name: gcsfs sends the name first, then the content
LOCK = threading.Lock()


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's delayed ACK of its headers

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: object = None, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        body = b"" if status in (204, 304) else body
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        given = dict(parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match = re.fullmatch(r"(?:/upload|/download)?/storage/v1/b/([^/]+)(?:/o(?:/(.*))?)?", url.path)
        with LOCK:
            if match is None:
                self.answer(404)
            elif url.path.startswith("/upload"):
                self.upload(given, body)
            elif match[2]:
                self.object(unquote(match[2]), given)
            elif url.path.endswith("/o"):
                self.listed(given)
            else:
                self.answer(200, {"kind": "storage#bucket", "name": match[1], "id": match[1], "location": "US"})

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def upload(self, given: dict[str, str], body: bytes) -> None:
        if given["uploadType"] == "resumable" and "upload_id" not in given:
            number = uuid.uuid4().hex
            UPLOADS[number] = given.get("name") or json.loads(body)["name"]
            path = self.path.partition("?")[0]
            place = f"http://{self.headers['Host']}{path}?uploadType=resumable&upload_id={number}"
            self.answer(200, Location=place)
            return
        name = given.get("name") or UPLOADS.pop(given["upload_id"])
        now = OBJECTS.get(name, (0, b""))[0]
        if int(given.get("ifGenerationMatch", now)) != now:
            self.answer(412)
            return
        OBJECTS[name] = (max((g for g, _ in OBJECTS.values()), default=1000) + 1, body)
        self.answer(200, self.described(name))

    def object(self, name: str, given: dict[str, str]) -> None:
        if name not in OBJECTS:
            self.answer(404, {"error": {"code": 404, "message": "No such object"}})
            return
        generation, content = OBJECTS[name]
        if self.command == "DELETE":
            del OBJECTS[name]
            self.answer(204)
        elif given.get("ifGenerationNotMatch") == str(generation):
            self.answer(304)
        elif int(given.get("ifGenerationMatch", generation)) != generation:
            self.answer(412)
        elif given.get("alt") != "media":
            self.answer(200, self.described(name))
        else:
            headers = {"X_Goog_Generation": str(generation), "Content_Type": "application/octet-stream"}
            part = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            size = len(content)
            if part is None:
                self.answer(200, content, **headers)
                return
            first = int(part[1]) if part[1] else max(0, size - int(part[2]))
            last = min(int(part[2] or size), size - 1) if part[1] else size - 1
            self.answer(206, content[first : last + 1], Content_Range=f"bytes {first}-{last}/{size}", **headers)

    def described(self, name: str) -> dict[str, str]:
        generation, content = OBJECTS[name]
        place = f"http://{self.headers['Host']}/download/storage/v1/b/bucket/o/{name.replace('/', '%2F')}?alt=media"
        times = dict.fromkeys(("timeCreated", "updated"), "2026-01-01T00:00:00.000Z")
        return {"kind": "storage#object", "name": name, "bucket": "bucket", "id": f"bucket/{name}", "size": str(len(content)),
                "generation": str(generation), "metageneration": "1", "mediaLink": place, **times}  # fmt: skip

    def listed(self, given: dict[str, str]) -> None:
        prefix, delimiter = given.get("prefix", ""), given.get("delimiter", "")
        start, end = given.get("startOffset", ""), given.get("endOffset", "\U0010ffff")
        items, folders = [], set()
        for name in sorted(OBJECTS):
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix) or not start <= name < end:
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                items.append(self.described(name))
        self.answer(200, {"kind": "storage#objects", "items": items, "prefixes": sorted(folders)})


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Store).serve_forever()

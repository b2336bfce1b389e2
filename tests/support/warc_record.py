"""A record of a WARC file."""


def record(url, body=b"", status="200 OK", kind="text/html; charset=utf-8", type_="response", headers=""):
    body = body.encode() if isinstance(body, str) else body
    http = b"" if type_ == "resource" else f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{headers}\r\n".encode()
    outer = kind if type_ == "resource" else f"application/http; msgtype={type_}"
    head = (
        f"WARC/1.0\r\nWARC-Type: {type_}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\nContent-Type: {outer}\r\n"
        f"Content-Length: {len(http + body)}\r\n\r\n"
    )
    return head.encode() + http + body + b"\r\n\r\n"

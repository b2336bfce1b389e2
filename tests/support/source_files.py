"""Parts of a MediaWiki XML dump (its head, its pages, its end), and a record of a WARC file."""

from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de">
  <siteinfo><sitename>Probe</sitename><case>first-letter</case><namespaces>
    <namespace key="0" /><namespace key="1">Diskussion</namespace><namespace key="6">Datei</namespace>
  </namespaces></siteinfo>
"""
TAIL = "</mediawiki>\n"


def page(title, text, number=1, ns=0, redirect=None, model="wikitext"):
    element = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    return (
        f"  <page><title>{escape(title)}</title><ns>{ns}</ns><id>{number}</id>{element}<revision><id>9</id>"
        f'<model>{model}</model><text xml:space="preserve">{escape(text)}</text></revision></page>\n'
    )


def write(path, data, opener=open):
    with opener(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


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

"""Parts of a MediaWiki XML dump: its head, its pages, its end."""

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

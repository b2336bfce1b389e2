"""The pages of the invented corpus as a web site, with a menu and a footer."""

from pathlib import Path

from tests.support import corpus

MENU = "".join(f"<p><a href='/p{number}/'>{word}</a>" for number, word in enumerate(("ba", "ko", "ri")))


def web_page(number: int) -> str:
    page = corpus.page(number)
    text, position = "", 0
    for link in page["links"]:
        anchor, target = page["text"][link["start"] : link["end"]], link["target"].replace("alias-", "old")
        text += page["text"][position : link["start"]] + f"<a href='../{target}/index.html#top'>{anchor}</a>"
        position = link["end"]
    lead, _, body = (text + page["text"][position:]).partition("\n")
    return (
        f"<!doctype html><meta charset=utf-8><title>{number}</title>"
        f"<h1>p{number}</h1><p>{lead}</p><h2>more</h2><p>{body}</p>{MENU}<footer><a href='/about'>about</a></footer>"
    )


def write_site(folder: Path) -> str:
    """Writes one folder per page, and one with a redirect per alias."""
    pages = {f"p{number}": web_page(number) for number in range(corpus.PAGES)}
    for number in range(0, corpus.PAGES, 5):
        pages[f"old{number}"] = f"<meta http-equiv=refresh content='0; url=../p{number}/'>"
    for name, page in pages.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(page)
    return str(folder)

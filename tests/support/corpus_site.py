"""The pages of the invented corpus in other markup: `linked` by any, `web_page` in HTML with a menu and a footer."""

from tests.support import corpus

MENU = "".join(f"<p><a href='/p{number}/'>{word}</a>" for number, word in enumerate(("ba", "ko", "ri")))


def linked(number: int, markup) -> tuple[str, str]:
    """Lead and body of an invented page, links written by `markup(target, anchor)`."""
    page = corpus.page(number)
    text, position = "", 0
    for link in page["links"]:
        anchor = page["text"][link["start"] : link["end"]]
        text += page["text"][position : link["start"]] + markup(link["target"].replace("alias-", "old"), anchor)
        position = link["end"]
    lead, _, body = (text + page["text"][position:]).partition("\n")
    return lead, body


def web_page(number: int) -> str:
    lead, body = linked(number, lambda target, anchor: f"<a href='../{target}/index.html#top'>{anchor}</a>")
    return (
        f"<!doctype html><meta charset=utf-8><title>{number}</title>"
        f"<h1>p{number}</h1><p>{lead}</p><h2>more</h2><p>{body}</p>{MENU}<footer><a href='/about'>about</a></footer>"
    )

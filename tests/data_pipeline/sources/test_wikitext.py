import pytest

from data_pipeline.sources.wikitext import Site, plain_text
from tests.support import source_reading
from tests.support.steps import check_linear

SITE = Site({"Talk": 1, "File": 6, "Category": 14, "Portal": 100})


def shown(wikitext, site=SITE, page=""):
    return source_reading.shown(plain_text(wikitext, site, page))


@pytest.mark.parametrize("wikitext,expected", [
    # links
    ("a [[Bus (vehicle)|bus]]es, b", "a [buses->Bus (vehicle)], b"), ("[[Ferry#History|its past]]", "[its past->Ferry]"),
    ("[[#Past|see above]] [[ old_mill ]]", "see above [old mill->Old mill]"),
    ("[[AT%26T|wires]] [[AT&amp;T|phones]] [[AT%26T]]", "[wires->AT&T] [phones->AT&T] [AT&T->AT&T]"),
    ("[[foo\u00ad bar]], [[foo\u200bbar|x]]", "[foo bar->Foo bar], [x->Foobar]"),
    ("[[a|'''b''' ''c'']]", "[b c->A]"), ("[[a| b ]]c [[d]] [[e| ]] f", "[b c->A] [d->D] f"),
    ("x[[a]][[b]]y [[a|[x]]]", "x[a->A][by->B] [[x]->A]"), ("[[a|{{transl|ar|DIN|ilah}}]] [[a|{{x}}]] z", "[ilah->A] z"),
    ("b[[Category:Cats|*]] [[fr:Chat]] [[:fr:Chat|chat]] [[c|d", "b chat c|d"),
    # files
    ("a [[File:x.jpg|thumb|A [[cat]] on a [[mat|''mat'']]]] b [[image:y.png]] c", "a b c"),
    # templates, tables, tags
    ("a {{b|{{c}}|[[d]]}} e {{{1|{{c}}}}} f {{{{x}}|y}} g", "a e f g"), ("a {{b {{c}} [[d]]", "a b [d->D]"),
    ("a\n{| class=x\n| [[b]]\n{|\n| c\n|}\n|}\nd", "a\nd"), ("a\n{|\n| [[b]]\n== h ==\nc", "a\nc"),
    ("a <table><tr><td>[[b]]</td></tr></table> c<ref name='x'>[[b]]</ref><ref name=y /> d<REF>d</ref>.", "a\nc d."),
    ("{{formatnum:18}} at {{convert|1300|mi|km}}, {{cvt|5|to|10|ft|m}}", "18 at 1300 mi, 5 to 10 ft"),
    ("{{nowrap|{{lang|fr|le}} chat}} {{abbr|TV|television}} {{nowrap|1=a=b}}", "le chat TV a=b"),
    ("{{w|nuclear weapon|arms}} {{ill|Ann|de}} {{nihongo|b|c}}", "[arms->Nuclear weapon] [Ann->Ann] b"),
    ("{{ill|de|Anne (A)|Ann}} {{ill|de|Ed}} {{flag|usa|1912}}", "[Ann->Ann] [Ed->Ed] [usa->Usa]"),
    ("a<!-- [[b]] --> c <nowiki>[[d]]</nowiki> e <math>x<y</math> f<!-- unclosed [[d]]", "a c e f"),
    # paragraphs, headings, lists
    ("a\nb\n\nc\n<!-- note -->\nd\n== [[h]] ==\nb\n===i===\nc", "a b\nc d\nb\nc"),
    ("* [[a]]\n** b\n# c\n: d\nafter\n----\n__NOTOC__a", "[a->A]\nb\nc\nd\nafter\na"),
    # text
    ("'''''a''''' l''''arbre''' ''The Times'''s b", "a l'arbre The Times's b"),
    ("a&nbsp;b &lt;c&gt; &#91;&#91;d]] &amp;amp;", "a b <c> [[d &amp;"),
    ("H<sub>2</sub>O is wet<br/>at [http://x.org/a the site] and [http://y.org]", "H2O is wet at the site and"),
    ("born ({{ipa}}; 1900) in () X ( , ).", "born (1900) in X."), ("a\tb \u00a0 c\u200b.", "a b c."), ("", ""),
    # nested deeply
    ("a " + "{{a|" * 5000 + "x" + "}}" * 5000 + " [[b]]", "a [b->B]"), ("[[File:x|" * 5000 + "]]" * 5000 + " c", "c"),
    ("\n{|\n|" * 5000 + "\n|}" * 5000 + "\nc", "c"),
])  # fmt: skip
def test_shows_what_a_reader_sees(wikitext, expected):
    assert shown(wikitext) == expected


def test_lead_ends_before_the_first_heading_with_text_above_it():
    for wikitext, end in (("{{box}}\nOne.\n\nTwo.\n\n== H ==\nB.", 9), ("== H ==\nA.\n== I ==\nB.", 2)):
        assert plain_text(wikitext, SITE).lead_end == end


def test_what_is_dropped_has_a_reason():
    plain = plain_text(
        "[[#a|b]] [[fr:c]] [[Talk:d]] [[e|{{f}}]] [[:|g]] It is {{height|x}} high.{{sfn|a}} {{cn}} Two. {{end}}", SITE
    )
    reasons = ["link-empty", "link-interwiki", "link-invalid", "link-namespace", "link-self", "template-in-sentence"]
    assert sorted(reason for reason, _ in plain.dropped) == reasons


def test_links_to_subpages():
    assert shown("[[/A]] [[/A/]] [[/A|x]]", page="Book") == "[/A->Book/A] [A->Book/A] [x->Book/A]"
    assert shown("[[../A/]] [[../A]] [[..]]", page="Book/B") == "[A->Book/A] [Book/A->Book/A] [..->..]"
    assert shown("[[/dev]]", Site({}, subpages=False), "Book") == "[/dev->/dev]"


@pytest.mark.parametrize(("language", "wikitext", "expected"), [
    ("zh", "-{zh-hans:计划;zh-hant:計畫}-[[太空|-{zh-cn:航天;zh-tw:太空}-]]。-{H|zh-cn:a}--{R|b}-", "计划[航天->太空]。b"),
    ("zh-hant", "-{zh-hans:计划;zh-hant:計畫}-", "計畫"), ("en", "-{a:b}-", "-{a:b}-"),
    ("tr", "[[istanbul]]", "[istanbul->İstanbul]"), ("nl", "[[ijs]]", "[ijs->IJs]"), ("en", "[[a]]é", "[a->A]é"),
    ("ru", "[[дом]]ами", "[домами->Дом]"), ("ja", "[[家]]族", "[家->家]族"), ("de", "[[:Datei:x]] [[Datei:y|z]]", "Datei:x"),
])  # fmt: skip
def test_what_the_language_of_a_wiki_changes(language, wikitext, expected):
    assert shown(wikitext, Site({}, language=language)) == expected


def test_titles_become_addresses():
    site = Site({})
    assert site.resolve("éclair").address == site.resolve("E\u0301clair ").address == "Éclair"
    assert all(site.resolve(title).address == title for title in ("Re:Zero", "ßtraße", "100%", "%ff"))
    assert Site({}, first_letter=False).resolve("iPod").address == "iPod"
    assert site.resolve("a" * 256).reason == site.resolve("a<b").reason == site.resolve("%00").reason == "link-invalid"
    assert Site({}, wikimedia=False).resolve("IT:Onboarding").address == "IT:Onboarding"


UNBALANCED = [
    *("[[", "[[a|b ", "[[File:", "{{", "{{lang|", "{{lang|a|b|[[", "|a", "-{", "{{{a", "<ref>", "<nowiki>", "<!--", "\n{|", "\n|}"),
    *("<table>", "'''s ''", "[http://a ", "((", "__A", "&amp", "<b ", "\n==", " \n", "[[a]]", "{{a}}", "\n* ", "= "),
]  # fmt: skip


@pytest.mark.parametrize("markup", UNBALANCED)
def test_unbalanced_markup_takes_linear_steps(markup):
    check_linear(lambda n: plain_text(markup * n, SITE))
    plain_text(markup * 20_000, SITE)  # a quadratic pattern would take minutes

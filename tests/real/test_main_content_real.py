"""The main content of 234 labelled web pages (trafilatura's benchmark), as benchmarks/main_content.py measures it."""

import pytest

from benchmarks.main_content import all_text, extracted, labelled_pages, score
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def test_main_content_of_labelled_pages():
    pages = labelled_pages(shared("main_content", "pages.jsonl.xz"))
    ours = score(pages, [extracted(page.html) for page in pages])
    everything = score(pages, [all_text(page.html) for page in pages])
    print(ours, everything)
    assert ours.f >= 0.92 and ours.f > everything.f + 0.2
    assert ours.precision > 0.88 and ours.recall > 0.93

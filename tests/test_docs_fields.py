"""docs/fields.md has every config field with its meaning."""

from tests.support import fields_page


def test_the_page_of_fields_is_up_to_date_and_explains_each():
    page = fields_page.page()
    assert page == fields_page.PAGE.read_text(encoding="utf-8"), "run python -m tests.support.fields_page"
    assert not [line for line in page.splitlines() if line.endswith("|  |")]

"""What a target says never becomes markup of a workflow's summary, nor a command of its log."""

from opserve_client.conform.writers.github import _annotation, _cell


def test_no_text_becomes_a_link_an_image_or_markup() -> None:
    told = _cell("![x](http://a) | `code` <img src=x>\n[b]: c")
    assert told == r"\!\[x\](http://a) \| \`code\` &lt;img src=x> \[b\]: c"


def test_no_text_begins_a_command_of_its_own() -> None:
    told = _annotation("error", "title, a: b", "100 %\n::set-output name=a::b")
    assert told.splitlines() == ["::error title=title%2C a%3A b::100 %25%0A::set-output name=a::b"]

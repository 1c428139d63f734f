"""A model's text as Markdown: formatting stays, markup and links do not (C30)."""

import re

import mistune
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.safe_markdown import neutralize_markdown

# Two parsers that were written independently, with everything on that a frontend may have on.
COMMON_MARK = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
MISTUNE = mistune.create_markdown(escape=False, plugins=["strikethrough", "table", "url", "footnotes", "task_lists"])
HARMLESS = re.compile(
    r"</?(?:p|em|strong|code|pre|ul|ol|li|blockquote|h[1-6]|del|s|sup|table|thead|tbody|tr|th|td|section)"
    r"""(?: (?:class|start|style)="[^"<>]*")*>|<(?:hr|br) ?/>"""
    r'|<input class="task-list-item-checkbox" type="checkbox" disabled(?: checked)?/>'
)
NASTY = [
    *("`", "``", "```", "~~~", "\n", "\n\n", "    ", "  ", "\t", "\\", "|", "- ", "1. ", "> ", "# ", "$", "a", "---\n"),
    *("<b>", "<img src=x>", "</script>", "<!--", "<?x", "<![CDATA[", "[", "]", "](", "](x)", "![", ")", "]: ", "[^1]"),
    *(
        "http://x.org",
        "www.x.org",
        "me@x.org",
        "<http://x.org>",
        "javascript:x",
        "&lt;",
        "| - |",
        "```html\n",
        "\n```\n",
    ),
]


def tags(html: str) -> list[str]:
    """Every tag that is more than formatting."""
    return re.findall(r"<[A-Za-z/!?][^>]*>?", HARMLESS.sub("", html))


@given(st.lists(st.sampled_from(NASTY), max_size=24).map("".join))
@settings(max_examples=500)
def test_no_parser_finds_markup_links_or_images_in_it(text):
    assert tags(COMMON_MARK.render(neutralize_markdown(text))) == []
    assert tags(str(MISTUNE(neutralize_markdown(text)))) == []


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "![x](http://evil.example/x.png)",
        "[label](javascript:alert(1))",
        "[label][ref]\n\n[ref]: http://evil.example",
        "[over\ntwo lines](http://evil.example)",
        "| a | b |\n|---|---|\n| `x | <img src=y> ` |",
        "- item\n  ```\n  code\n<img src=y>",
        "1. item\n   ```\n    ```\n   <img src=y>",
        "a ` b\nc ` <img src=y> ` d",
        "``a``http://x `<img src=y>`",
        "\\http://x `<img src=y>`",
        "<https://evil.example>",
    ],
)
def test_known_attacks_show_as_text(text):
    assert tags(COMMON_MARK.render(neutralize_markdown(text))) == []
    assert tags(str(MISTUNE(neutralize_markdown(text)))) == []


def test_formatting_and_code_stay_as_they_are():
    text = (
        "# Title\n\n**bold** and `List<int>`, a < b\n\n- one\n- two\n\n"
        "```html\n<b>code</b>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )
    assert neutralize_markdown(text) == text


def test_link_shows_its_label_and_address():
    assert neutralize_markdown("See [the docs](https://x.example/a).") == "See the docs (`https://x.example/a`)."
    assert neutralize_markdown("![a chart](https://x.example/a.png)") == "a chart (`https://x.example/a.png`)"


def test_deeply_indented_fence_is_code_still():
    assert neutralize_markdown("1.  item\n\n    ```python\n    if a<b: pass\n    ```") == (
        "1.  item\n\n   ```python\n   if a<b: pass\n   ```"
    )


def test_terminal_text_has_no_control_characters():
    assert remove_control_characters("a\x1b]0;title\x07b\x9b31m\r\n\tc") == "a]0;titleb31m\n\tc"

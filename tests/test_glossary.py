"""The glossary and the code use the same words: one word per idea, and no idea with two words."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.identifiers import find_identifiers, split_words

ROOT = Path(__file__).parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in GLOSSARY.splitlines()
    if line.startswith(("| **", "| `"))
]
TERMS = sorted({term for row in ROWS for term in re.findall(r"\*\*(.+?)\*\*|`(\w+)`", row[0]) for term in term if term})
NOT = [word.strip() for row in ROWS for word in re.sub(r"\([^)]*\)", "", "".join(row[2:3])).split(",") if word.strip()]
REJECTED = sorted({word for word in NOT if not {word, word.removesuffix("s")} & set(TERMS)})


words_of = cache(split_words)  # each name is looked at for each word


@cache
def read_identifiers() -> list[tuple[str, str]]:
    return list(find_identifiers(ROOT / "ensemble_notebook"))


@cache
def read_sources() -> str:
    """All words of the sources, in lower case, whatever stands between them."""
    sources = [*(ROOT / "ensemble_notebook").rglob("*.py"), *(ROOT / "js" / "src").rglob("*.ts*")]
    return " ".join(" ".join(split_words(path.read_text(encoding="utf-8"))) for path in sources)


def has_words(identifier: str, words: list[str]) -> bool:
    """Whether these words, the last one perhaps in the plural, stand side by side in a name."""
    found = words_of(identifier)
    starts = range(len(found) - len(words) + 1)
    return any(found[at : at + len(words)] in (words, [*words[:-1], f"{words[-1]}s"]) for at in starts)


@pytest.mark.parametrize("word", REJECTED)
def test_word_that_the_glossary_rejects_is_in_no_name(word):
    assert [(name, where) for name, where in read_identifiers() if has_words(name, split_words(word))] == []


@pytest.mark.parametrize("term", TERMS)
def test_term_of_the_glossary_is_used_in_the_code(term):
    assert re.search(rf"\b{' '.join(split_words(term))}s?\b", read_sources())


def test_every_row_says_what_its_word_means():
    assert len(ROWS) > 70
    assert [row[0] for row in ROWS if len(row) < 2 or not row[1]] == []


def test_words_are_found_in_every_spelling_of_a_name():
    assert split_words("LlmCallStarted") == ["llm", "call", "started"]
    assert split_words("_max_LLMCalls2") == ["max", "llm", "calls", "2"]
    assert has_words("_open_jobs", ["job"])
    assert not has_words("jobless", ["job"])

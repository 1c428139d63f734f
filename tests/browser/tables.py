"""The table of a map or of items in the page: how a person comes to it, and what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.lab import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator

READ = """field => [...field.querySelectorAll("[role=row][data-line]")].map((row) => [...row.children].map((cell) => {
  const mark = cell.querySelector(".et-mark, .et-sign");
  const words = cell.querySelector("q")?.textContent ?? cell.textContent;
  return mark ? [mark.textContent.trim(), words] : words;
}))"""


def show_table(view: Locator) -> Locator:
    """Show the run as a table, and give it once it is drawn."""
    view.get_by_role("radio", name="Grid", exact=True).click()
    table = view.locator(".et-answers-field")
    wait_for(lambda: bool(table.count()) and bool(table.evaluate("it => it.clientWidth > 300")), 60)
    return table


def read_lines(table: Locator) -> list[list[str | list[str]]]:
    """The lines that are in the page: the name, the inputs, and of each answer its mark and its words."""
    found: list[list[str | list[str]]] = table.evaluate(READ)
    return found


def read_names(table: Locator) -> list[str]:
    """The names of the lines that are in the page."""
    return [str(line[0]) for line in read_lines(table)]


def cell_at(table: Locator, line: int, answer: int) -> Locator:
    """An answer of a line that is in the page."""
    return table.locator(f"[data-line='{line}'] [data-answer]").nth(answer)

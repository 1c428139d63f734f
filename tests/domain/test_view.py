"""The hook through which a layer above gives objects their views."""

from __future__ import annotations

import pytest

from ensemble_notebook.domain.seams import views


@pytest.fixture
def no_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_VIEWS", {})


@pytest.mark.usefixtures("no_views")
def test_a_view_is_made_by_the_function_that_was_registered_for_its_kind() -> None:
    views.register_view("number", "operator:neg")
    assert views.render_view("number", 3) == -3


@pytest.mark.usefixtures("no_views")
def test_without_a_view_an_object_shows_as_its_repr() -> None:
    assert views.make_mime_bundle("number", 3) == {"text/plain": "3"}
    with pytest.raises(LookupError, match="No view of kind 'number' is registered"):
        views.render_view("number", 3)


@pytest.mark.usefixtures("no_views")
def test_a_view_is_imported_when_it_is_first_shown() -> None:
    views.register_view("number", "no_such_module_anywhere:show")
    with pytest.raises(ModuleNotFoundError):
        views.make_mime_bundle("number", 3)

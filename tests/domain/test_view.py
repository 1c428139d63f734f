"""The hook through which a layer above gives objects their faces."""

from __future__ import annotations

import pytest

from ensemble_notebook.domain.seams import rich_display as view


@pytest.fixture
def no_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_FACES", {})


@pytest.mark.usefixtures("no_faces")
def test_a_face_is_made_by_the_function_that_was_registered_for_its_kind() -> None:
    view.register_face("number", "operator:neg")
    assert view.face("number", 3) == -3


@pytest.mark.usefixtures("no_faces")
def test_without_a_face_an_object_shows_as_its_repr() -> None:
    assert view.rich_bundle("number", 3) == {"text/plain": "3"}
    with pytest.raises(LookupError, match="No view of kind 'number' is registered"):
        view.face("number", 3)


@pytest.mark.usefixtures("no_faces")
def test_a_face_is_imported_when_it_is_first_shown() -> None:
    view.register_face("number", "no_such_module_anywhere:show")
    with pytest.raises(ModuleNotFoundError):
        view.rich_bundle("number", 3)

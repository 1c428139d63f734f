"""`jupyter ensemble enable` and `disable`: what they change in IPython's configuration, and what they leave alone."""

import json
import subprocess
import sys

import pytest

from ensemble_notebook.cli.autoload import disable, enable, find_environment_config, find_user_config
from ensemble_notebook.cli.main import DONE, FAILED, main
from ensemble_notebook.errors import EnsembleError

OURS = {"MagicsManager": {"lazy_magics": {"ensemble": "ensemble_notebook"}}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "profile_default" / "ipython_config.json"


def written(file, config) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config if isinstance(config, str) else json.dumps(config))


def test_enable_makes_the_file_and_disable_removes_it(file):
    assert enable(file)
    assert json.loads(file.read_text()) == OURS
    assert disable(file)
    assert not file.exists()


def test_what_others_wrote_stays(file):
    others = {
        "InteractiveShell": {"colors": "Linux"},
        "MagicsManager": {"auto_magic": False, "lazy_magics": {"other": "module"}},
        "é": [1],
    }
    written(file, others)
    enable(file)
    assert json.loads(file.read_text())["MagicsManager"]["lazy_magics"] == {
        "other": "module",
        "ensemble": "ensemble_notebook",
    }
    disable(file)
    assert json.loads(file.read_text()) == others


def test_second_time_changes_nothing(file):
    enable(file)
    before = file.stat().st_mtime_ns
    assert not enable(file)
    assert file.stat().st_mtime_ns == before
    disable(file)
    assert not disable(file)


@pytest.mark.parametrize(
    "config, told",
    [
        ("{not json", "is no valid JSON"),
        ("[1]", "holds no JSON object"),
        ({"MagicsManager": 3}, "MagicsManager holds 3"),
        ({"MagicsManager": {"lazy_magics": {"ensemble": "theirs"}}}, "is 'theirs' already"),
    ],
)
def test_file_that_is_not_understood_is_left_as_it_is(file, config, told):
    written(file, config)
    before = file.read_bytes()
    with pytest.raises(EnsembleError, match=told):
        enable(file)
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_python_file_that_sets_the_same_option_is_respected(file):
    written(file.with_suffix(".py"), 'c.MagicsManager.lazy_magics = {"other": "module"}\n')
    with pytest.raises(EnsembleError, match="Add this entry there instead: 'ensemble': 'ensemble_notebook'"):
        enable(file)
    assert not file.exists()


def test_other_python_files_are_no_obstacle(file):
    written(file.with_suffix(".py"), "c.InteractiveShell.colors = 'Linux'\n# c.MagicsManager.lazy_magics = {}\n")
    assert enable(file)


def test_places_are_those_that_ipython_reads(monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    assert find_user_config() == tmp_path / "profile_default" / "ipython_config.json"
    assert find_environment_config().parts[-3:] == ("etc", "ipython", "ipython_config.json")
    assert find_environment_config().is_relative_to(sys.prefix)


def test_enabled_magic_is_there_without_load_ext(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    assert main(["enable", "--user"]) == DONE
    assert "now enabled" in capsys.readouterr().out
    script = "get_ipython().run_line_magic('ensemble', 'version')"
    command = [sys.executable, "-m", "IPython", "--no-banner", "--HistoryManager.enabled=False", "-c", script]
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert "ensemble-notebook 0" in shown.stdout


def test_refusal_is_short_and_fails(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    written(tmp_path / "profile_default" / "ipython_config.json", "{")
    assert main(["enable"]) == FAILED
    assert "is no valid JSON" in capsys.readouterr().err

"""An interrupt before there is a run (E35): while a cell imports what it names."""

from ensemble_notebook.errors import RunInterrupted


def test_interrupt_while_the_cell_imports_what_it_names_is_one_line(shell, tmp_path, monkeypatch, capsys):
    (tmp_path / "slow_kitchen.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(tmp_path)
    error = shell.error("%%ensemble\n- {description: a, handler: slow_kitchen.cook}")
    assert isinstance(error, RunInterrupted)
    assert "Stopped: the cell was interrupted." in capsys.readouterr().out.splitlines()

"""What tests need, ours and those of others: what every trace must hold, a clock that jumps."""

from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual

__all__ = ["LoopClock", "VirtualLoop", "find_violations", "run_virtual"]

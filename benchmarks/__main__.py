"""``python -m benchmarks [--quick] [NAME ...]``: prints the table; the exit status is 1 where a limit is passed."""

from __future__ import annotations

import argparse
import sys

from benchmarks.row import HEAD
from benchmarks.suite import MEASUREMENTS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that everything works: tiny, and not judged")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; all without one")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASUREMENTS):
        parser.error(f"no measurement {', '.join(sorted(unknown))}")
    print(HEAD)
    is_ok = True
    for row in run(options.names or MEASUREMENTS, quick=options.quick):
        print(row.line(is_judged=not options.quick), flush=True)
        is_ok = is_ok and row.is_ok
    return 0 if is_ok or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())

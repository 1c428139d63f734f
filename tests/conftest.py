"""What holds for every test: hypothesis' profile.

Warnings are errors, order is random and a hanging test is cut: see `[tool.pytest]`. Each layer's fixtures are beside
its tests.
"""

import os

from hypothesis import HealthCheck, settings

# No deadline: two busy cores make any single example slow, and a slow example is no fault of the rule it checks.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run, so that a red CI can be seen again; a blob to paste when it is not enough.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

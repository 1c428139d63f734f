"""What others make, really installed and run with us: hosts, frameworks, packages of providers, readers of our files.

``make test-others`` runs this folder and writes docs/others.md; ``make test`` leaves it out, since it fetches packages
and takes minutes. What is tried here has an ordinary test of its own, where that can be.
"""

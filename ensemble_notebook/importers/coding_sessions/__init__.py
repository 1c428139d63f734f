"""Sessions of coding agents, as Claude Code and Codex leave them on disk: a JSON object a line.

The formats are not documented, and change from version to version. What is read of them is said in `docs/interop.md`;
what is not is kept as text. `session_lines` tells whose lines they are, `claude_code` and `codex` read them into a
`Session`, `session_events` tells that as our events, `sessions` sees to files that belong together.
"""

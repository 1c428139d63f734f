"""What speaks the protocols of other programs, such as MCP servers.

Opens connections of its own, and knows the domain alone: neither runs, nor models, nor traces.
"""

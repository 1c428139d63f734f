"""Everything that talks to a language model: specs, clients, the local model, scripted replies, what errors mean.

Implements the Protocols of `domain.seams.chat_port`; knows nothing of agents, tasks or runs.
Heavy packages load at first use.
"""

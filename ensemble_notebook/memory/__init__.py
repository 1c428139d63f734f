"""Where tasks' memories are kept (E44): in the process, in a file with a full-text index, in a vector store.

Implements the Protocol of `domain.definitions.memory`; knows nothing of runs, models or prompts.
"""

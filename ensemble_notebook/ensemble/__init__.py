"""The public facade: wires definitions, engine, trace and models together. Knows nothing of notebooks."""

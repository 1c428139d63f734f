"""What a person declares: agents, tasks, phases, the ensemble, and all that their fields hold."""

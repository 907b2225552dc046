"""Exchange with other tools: results in their formats, answers from their logs, checkpoints for the hub."""

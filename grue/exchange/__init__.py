"""What others read and write: results in their formats, answers from their logs, checkpoints for the hub."""

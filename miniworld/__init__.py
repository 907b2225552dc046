"""The mini world: draws the rows of the mini suite's tasks and trains its small models; see `python -m miniworld`."""

"""Data sets: where they come from, how their rows become examples, and what is kept of them on this machine."""

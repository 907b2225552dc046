"""The shelf of metrics; `base` says what a metric is, the other modules register theirs by name."""

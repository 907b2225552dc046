"""Metrics and rewards: `metric` is the protocol, `registry` finds metrics by name, each family has a module here."""

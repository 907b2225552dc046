"""Our metrics for `evaluate.load`: `evaluate.load(grue.metrics.hub.SCRIPT, "meteor")`; nothing else imports it."""

from grue.metrics.hub import module_class

Grue = module_class()

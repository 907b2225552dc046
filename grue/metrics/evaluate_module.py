"""Our metrics for `evaluate.load`: `evaluate.load(evaluate_library.SCRIPT, "meteor")`; nothing else imports it."""

from grue.metrics.evaluate_library import module_class

Grue = module_class()

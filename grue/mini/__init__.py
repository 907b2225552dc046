"""The embedded suite: a small synthetic world, the tasks drawn from it, and the small models that read it."""

"""Answers without learning, from the prompt, the training split and counting alone.

One file per data set, named as in `grue/data/sets`; its `LOOKUPS` are name → lookup, and `find` finds them. They are a
floor that a trained system must beat: where it does not, the test set can be looked up.
"""

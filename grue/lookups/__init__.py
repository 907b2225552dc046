"""Answers without learning: what a table of the training split, counting and the prompt alone can do.

One file a data set, named as in `grue/data/sets`; its `LOOKUPS` are name → lookup, and `find` finds them. They are the
floor that a trained system must leave behind: where one does not, the test set can be looked up.
"""

"""The embedded suite as data: the rows of its tasks and the small models that read them.

Both are made by `miniworld`, a tool of the repository that is not part of the package.
"""

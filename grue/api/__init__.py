"""The Python API: a function for each command. `import grue` has them: `grue.train`, `grue.score` and so on.

Heavy packages are imported when they are needed: a script that only scores never loads torch.
"""

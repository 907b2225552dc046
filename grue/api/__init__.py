"""The Python API: what the commands do, in a line each. `import grue` offers it: `grue.train`, `grue.score` and so on.

What is heavy is imported when it is needed: a script that only scores never loads torch.
"""

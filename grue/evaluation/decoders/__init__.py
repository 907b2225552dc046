"""Ways to guide a model's decoding without training it, one file each, and their names."""

from pkgutil import iter_modules

BUILT_IN = tuple(sorted(module.name for module in iter_modules(__path__)))

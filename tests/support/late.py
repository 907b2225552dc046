"""Modules that are imported at their first use, so that to collect a test of them costs nothing."""

import importlib

ASKED = ("_mock_name", "__wrapped__", "__func__", "__bases__", "__test__", "pytestmark")
"""What pytest asks of all that stands in a test module, and `inspect` for it: no module is imported for that."""


class late:
    """A module by name: `torch = late("torch")` imports torch once something of it is used.

    Patching an attribute patches the module's.
    """

    __slots__ = ("_name",)

    def __init__(self, name):
        object.__setattr__(self, "_name", name)

    @property
    def __dict__(self):
        """The module's: `monkeypatch` looks there for what to restore."""
        return vars(importlib.import_module(self._name))

    def __getattr__(self, attribute):
        if attribute in ASKED:
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)

    def __setattr__(self, attribute, value):
        setattr(importlib.import_module(self._name), attribute, value)

    def __delattr__(self, attribute):
        delattr(importlib.import_module(self._name), attribute)


def lates(names, package=""):
    """Several at once: `torch, tiny = lates("torch support.tiny")`."""
    return tuple(late(package + name) for name in names.split())

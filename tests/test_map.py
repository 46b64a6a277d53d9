"""What is said of the project's own modules is true of those that are there."""

import importlib
import pkgutil

import deployments
import flows
import tasks
from docs.map import ROOT, page
from tasks import errors


def test_map_has_every_module():
    assert (ROOT / "docs/map.md").read_text() == page(), "make generate writes it"


def test_errors_are_all_in_the_tree_that_is_drawn_of_them():
    for package in (flows, tasks, deployments):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "cuda" not in module.name and not module.name.endswith(("rapids", "__main__")):
                importlib.import_module(module.name)
    drawn = errors.__doc__ or ""
    assert [kind.__name__ for kind in subclasses(errors.ZydaError) if f"{kind.__name__} " not in drawn] == []


def subclasses(kind):
    for one in kind.__subclasses__():
        if not one.__module__.startswith(("test", "plain_text")):
            yield one
            yield from subclasses(one)

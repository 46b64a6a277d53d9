"""Deployments and their flows, and the deployment of CONTRIBUTING.md."""

import importlib
import pkgutil
import re
import sys
from textwrap import dedent, indent

import pytest
import yaml
from prefect import Flow
from small_corpus import REPOSITORY, build_here, table_of

from zyda_flows import flows
from zyda_flows.flows.server import deployed

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("## Add a deployment\n")[2]
CODE = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)[1]
ENTRY = re.search(r"^    - name:.*\n(?:      .*\n)+", GUIDE, re.MULTILINE)[0]


def deployments():
    return yaml.safe_load(deployed.DEFINITIONS.read_text())["deployments"]


def flows_of_modules():
    """Return each flow that a module of flows/ defines, by the path that a deployment has as its entrypoint."""
    modules = [
        importlib.import_module(f"zyda_flows.flows.{module.name}")
        for module in pkgutil.iter_modules(flows.__path__)
        if not module.ispkg
    ]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Flow) and value.fn.__module__ == module.__name__
    }


def test_every_flow_has_a_deployment_of_its_name():
    declared = {deployment["entrypoint"]: deployment["name"] for deployment in deployments()}
    assert declared == {path: flow.name for path, flow in flows_of_modules().items()}


def test_flow_without_a_deployment_raises():
    with pytest.raises(
        TypeError, match=r"prefect\.yaml: expected a deployment of the flow count, got only bu"
    ):
        deployed.expect_deployed("count")


@pytest.fixture
def guide(tmp_path, monkeypatch):
    """Yield the flow of the guide, and a function that adds its deployment to the declared deployments."""
    (tmp_path / "count.py").write_text(CODE)
    spec = importlib.util.spec_from_file_location("zyda_flows.flows.count", tmp_path / "count.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "zyda_flows.flows.count", module)
    spec.loader.exec_module(module)

    def declare():
        definitions = tmp_path / "prefect.yaml"
        definitions.write_text(f"{deployed.DEFINITIONS.read_text()}\n{indent(dedent(ENTRY), '  ')}")
        monkeypatch.setattr(deployed, "DEFINITIONS", definitions)
        deployed.flow_names.cache_clear()

    yield module.count, declare
    monkeypatch.undo()
    deployed.flow_names.cache_clear()


def test_deployment_of_the_guide_is_declared_like_the_others(guide):
    count, declare = guide
    others = deployments()
    declare()
    *known, added = deployments()
    assert known == others
    assert (added["name"], added["entrypoint"]) == (count.name, "zyda_flows.flows.count.count")
    assert deployed.flow_names()[-1] == "count"


def test_flow_of_the_guide_runs_once_it_is_declared(server, corpus, guide):
    count, declare = guide
    recipe = corpus.load()
    build_here(recipe)
    with pytest.raises(TypeError, match="expected a deployment of the flow count"):
        count(str(corpus.path))
    declare()
    assert count(str(corpus.path)) == sum(len(table_of(recipe, source.name)) for source in recipe.sources)

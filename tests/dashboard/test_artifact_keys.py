"""Test the keys of the dashboard's artifacts."""

from zyda_flows.flows.dashboard.artifact_keys import artifact_key


def test_different_corpora_have_different_keys(corpus):
    dot, dash = corpus.load(name="a.b"), corpus.load(name="a-b")
    elsewhere = corpus.load(name="a-b", storage=str(corpus.folder / "elsewhere"))
    keys = {artifact_key(recipe, "funnel") for recipe in (dot, dash, elsewhere)}
    assert len(keys) == 3
    assert all(key.replace("-", "").isalnum() and key == key.lower() for key in keys)

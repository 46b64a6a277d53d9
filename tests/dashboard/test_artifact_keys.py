"""What the dashboard's artifacts are called."""

from zyda_flows.flows.dashboard.artifact_keys import artifact_key


def test_two_corpora_never_share_a_key(corpus):
    dot, dash = corpus.load(name="a.b"), corpus.load(name="a-b")
    elsewhere = corpus.load(name="a-b", storage=str(corpus.folder / "elsewhere"))
    keys = {artifact_key(recipe, "funnel") for recipe in (dot, dash, elsewhere)}
    assert len(keys) == 3
    assert all(key.replace("-", "").isalnum() and key == key.lower() for key in keys)

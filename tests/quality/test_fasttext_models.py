"""A model of fastText judges documents: its scores in the published corpus are those of fastText's own library."""

import struct
import sys
from collections import Counter

import fasttext
import pytest
from language_models import train_model
from small_corpus import build_here, table_of, write_rows

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.quality.encoder_files import Fault
from zyda_flows.tasks.quality.fasttext_models import check
from zyda_flows.tasks.quality.forms import judged_model
from zyda_flows.tasks.recipe.judges import Judge


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("fasttext"), ("hq", "cc"))


def judged(corpus, model, **changes):
    classify = {"model": str(model), **changes.pop("classify", {})}
    sources = [
        {**source, "classify": classify, **changes} if source["name"] == "worst" else source
        for source in corpus.recipe["sources"]
    ]
    return corpus.load(sources=sources)


def scores_of_fasttext(model, rows):
    theirs = fasttext.load_model(str(model))
    return {
        row["name"]: dict(zip(*theirs.predict(row["text"].replace("\n", " "), k=-1), strict=True))
        for row in rows
    }


def test_scores_are_those_of_fasttext(corpus, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # which this form does not need
    recipe = judged(corpus, model)
    ledger = build_here(recipe)
    rows = table_of(recipe, "worst")
    expected = scores_of_fasttext(model, rows)
    assert len(rows) == ledger.of("classify", "worst").documents > 1
    for row in rows:
        theirs = expected[row["name"]]
        for label in ("hq", "cc"):
            assert row[f"quality_{label}"] == pytest.approx(theirs[f"__label__{label}"], abs=1e-5)
        assert row["quality_prob"] == max(row["quality_hq"], row["quality_cc"])
        assert row[f"quality_{row['quality_pred']}"] == row["quality_prob"]
    assert any(row["quality_hq"] != round(row["quality_hq"], 4) for row in rows)


def test_documents_are_kept_by_the_score_of_a_label_or_by_the_label(corpus, model):
    everything = judged(corpus, model).model_copy(update={"name": "everything"})
    build_here(everything)
    scores = sorted(row["quality_hq"] for row in table_of(everything, "worst"))
    middle = scores[len(scores) // 2]
    recipe = judged(corpus, model, keep=f"quality_hq >= {middle:.9f}")
    build_here(recipe)
    kept = [row["quality_hq"] for row in table_of(recipe, "worst")]
    assert sorted(kept) == [score for score in scores if score >= middle]
    labels = Counter(row["quality_pred"] for row in table_of(everything, "worst"))
    recipe = judged(corpus, model, classify={"keep": ["cc"]})
    build_here(recipe)
    assert len(table_of(recipe, "worst")) == labels["cc"]


def fault_of(corpus, model, **changes):
    with pytest.raises(ZydaError) as raised:
        build_here(judged(corpus, model, **changes))
    (fault,) = raised.value.faults
    assert "\n" not in fault
    return fault


def test_invalid_files_are_one_error_each(corpus, model, tmp_path):
    content = model.read_bytes()
    damaged = tmp_path / "own.bin"

    def fault(content):
        damaged.write_bytes(content)
        return fault_of(corpus, damaged)

    assert f"classify.model: {damaged}: the output matrix: expected" in fault(content[:-1])
    assert "its magic number is missing" in fault(b"PK\3\4" + content)
    assert fault(b"").endswith("it is cut short; copy the file again, or train the model again")
    assert "cannot predict any" in fault(content[:36] + struct.pack("<i", 1) + content[40:])
    assert "not all finite" in fault(content[:-4] + struct.pack("<f", float("nan")))
    assert "there is no file" in fault_of(corpus, tmp_path / "none.bin")
    assert "has no label best" in fault_of(corpus, model, classify={"keep": ["best"]})
    assert "keep: quality_best > 0.5: " in fault_of(corpus, model, keep="quality_best > 0.5")


def test_model_of_too_many_labels_or_bytes_is_refused(model):
    with (
        replaced_limits(model_labels=1),
        pytest.raises(BadInput, match="2 labels, and at most 1 can be columns"),
    ):
        judged_model(Judge(name="a", model=str(model)))
    with replaced_limits(model_bytes=100), pytest.raises(Fault, match="more than 100 bytes"):
        check(model)


@pytest.mark.parametrize("labels", [("pred", "cc"), ("hq", "HQ")])
def test_labels_that_would_be_the_same_column_are_refused(tmp_path, labels):
    with pytest.raises(BadInput, match=r"two of its results would be the column a_(pred|HQ|hq)"):
        judged_model(Judge(name="a", model=str(train_model(tmp_path, labels))))


def test_column_of_the_source_with_the_name_of_a_score_is_one_error(corpus, model, tmp_path):
    named = train_model(tmp_path, ("hq", "cc"))
    write_rows(
        corpus.folder / "in/worst-7.jsonl.zst",
        [{"name": "a", "stars": 1, "text": "some text", "Quality_HQ": 1.0}],
    )
    fault = fault_of(corpus, named)
    assert "adds the column quality_hq, which the source has already; add it to `without`" in fault


def test_model_of_the_hub_is_recorded_with_its_commit(corpus, model, tmp_path, monkeypatch):
    cached = tmp_path / "snapshots/0123abc/models/judge.bin"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(model.read_bytes())
    asked = []
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download",
        lambda *names, **options: asked.append((names, options)) or str(cached),
    )
    recipe = judged(corpus, "lab/judges/models/judge.bin")
    build_here(recipe)
    assert asked[0] == (("lab/judges", "models/judge.bin"), {"revision": None})
    assert asked[-1][1] == {"revision": "0123abc"}
    manifest = published_manifest(recipe.folder)
    (named,) = [model for origin in manifest.made_of for model in origin.models]
    assert (named["name"], named["revision"]) == ("lab/judges/models/judge.bin", "0123abc")

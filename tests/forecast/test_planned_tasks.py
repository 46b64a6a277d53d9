"""Compare the planned tasks of each stage with the executed tasks of a build of the same recipe."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damages import SEMANTIC
from small_corpus import QUALITY, STEPS, Corpus, build_here, edited, listed_files, prose, rows, write_rows
from token_judges import random_judge

from zyda_flows.tasks import pipeline
from zyda_flows.tasks.forecast.plan import plan_of
from zyda_flows.tasks.quality.document_filter import DocumentFilter, run_filter
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.stage.cost import ONCE
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import VERDICTS, load_histories
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key

FILES, DOCUMENTS = 14, 10
pytestmark = pytest.mark.slow
NEVER = DocumentFilter("odd", version=1, verdicts=lambda _: VERDICTS.empty_table(), reasons={})


@stage("odd", NEVER.key)
def odd(recipe, trail):
    """Remove no document. The planner has no special case for this stage, which has a job for each shard."""
    return run_filter(recipe, trail, NEVER)


def corpus_stage(name, jobs, **options):
    """Return a corpus stage that counts shards. jobs: function that groups the shards into jobs."""

    def key(recipe, trails):
        return stage_key(name, 1, None, *(identity for trail in trails for identity in trail.identities))

    @stage(name, key, scope="corpus", inputs=("trails",), **options)
    def count(recipe, trails):
        shards = [history.shard for trail in trails for history in load_histories(recipe.folder, trail)]
        fan_out(len, jobs(shards), stage=name, source=None)
        return Manifest(stage=name)

    return count


BY_SHARD = corpus_stage("heavy", lambda shards: [[shard] for shard in shards])
TOGETHER = corpus_stage("together", lambda shards: [shards], cost=ONCE)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Return a corpus of two sources of many files, with a near-duplicate per file and every kind of step."""
    corpus = Corpus(tmp_path_factory.mktemp("crowded"))
    for i in range(FILES):
        documents = {f"m{i}_{j}": prose(f"m{i}_{j}", 200 + 37 * (j % 9)) for j in range(DOCUMENTS)}
        path = corpus.folder / f"many/part-{i}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows(**documents)), path)
        others = {f"l{i}_{j}": prose(f"l{i}_{j}", 150 + 53 * (j % 5)) for j in range(DOCUMENTS)}
        others |= {f"l{i}_like": edited(documents[f"m{i}_1"])}
        write_rows(corpus.folder / f"lines/part-{i}.jsonl.gz", rows(**others))
    item = {"question": prose("a question", 30), "choices": ["yes", "no"], "answer": 0}
    pq.write_table(pa.Table.from_pylist([item]), corpus.folder / "set.parquet")
    for i in range(3):
        labels = [{"id": f"m{i}_{j}", "grade": j} for j in range(DOCUMENTS)]
        pq.write_table(pa.Table.from_pylist(labels), corpus.folder / f"labels-{i}.parquet")
    (corpus.folder / "asked.txt").write_text("nobody.example\n")
    corpus.recipe |= {
        "name": "crowded",
        "published_mib": 0.06,  # of two files
        "deny": "asked.txt",
        "publish_vectors": "own",
        "documents": [
            *STEPS,
            {"decontaminate": {"sets": {"one": str(corpus.folder / "set.parquet")}}},
        ],
        "dedup": [{"exact": "text"}, {"bands": 8, "rows": 16, "verify": {"jaccard": 0.5}}],
        "passages": [{"length": 100}, {"lines": {"in_documents": 2, "at_least": 20}}],
        "sources": [
            {
                "name": "many", "files": "many/*.parquet", "keep": "stars > 0",
                "join": {"from": "labels-*.parquet", "on": "id", "take": "grade"}, "id": "name",
                "judges": [{"name": "own", "model": str(random_judge(corpus.folder / "own"))}],
            },
            {
                "name": "lines",
                "files": "lines/*.jsonl.gz",
                "judges": [
                    {
                        "name": "deep", "model": str(QUALITY), "max_tokens": 64, "only_if": "stars >= 0",
                        "keep": "deep_prob > 0",
                    },
                ],
                "classify": {"model": str(QUALITY), "keep": ["High"]},
            },
        ],
    }  # fmt: skip
    return corpus


@pytest.fixture(scope="module")
def tasks(crowded):
    """Plan and build the corpus; return the planned and the executed tasks of each stage."""
    with pytest.MonkeyPatch.context() as patch:
        before, *after = pipeline.PIPELINE
        patch.setattr(pipeline, "PIPELINE", (before, odd, *after[:-1], BY_SHARD, TOGETHER, after[-1]))
        recipe = crowded.load()
        plan = plan_of(recipe, 2, 8 << 30, lambda function, items, **_: [function(item) for item in items])
        run = dict[str, int]()
        with calling_on_result(lambda name, _, __, spent: run.update({name: run.get(name, 0) + spent.calls})):
            build_here(recipe)
    counts = Counter(file.path.rpartition("/")[0] for file in listed_files(recipe.folder))
    (written,) = (stage.spent.written for stage in plan.stages if stage.stage == "vectors")
    kept = next(each.documents.value * each.kept for each in plan.sources if each.source == "many")
    assert written == round(24 * kept) > 0  # 12 dimensions, an id and a scale
    return {stage.stage: stage.spent.calls for stage in plan.stages}, run, (plan.files_by_folder, counts)


def test_unknown_stages_are_planned_with_one_task_per_shard(tasks):
    planned, run, _ = tasks
    assert planned["odd"] == run["odd"] == 2 * FILES
    assert planned["heavy"] == run["heavy"] == 2 * FILES
    assert planned["together"] == run["together"] == 1


def test_planned_tasks_of_every_stage_equal_the_executed_tasks(tasks):
    planned, run, _ = tasks
    assert planned.keys() >= {name for name, calls in run.items() if calls}
    # `corpus`: the trial runs no model, so it publishes no documents that a model removes. `audit`: the number
    # of batches of pairs differs from the number of shards.
    nearly = {"corpus": 0.25, "audit": 0.1, "audit2": 1}
    wrong = {
        name: (planned[name], calls)
        for name, calls in run.items()
        if planned[name] != pytest.approx(calls, rel=nearly.get(name, 0))
    }
    assert wrong == {}
    run_once = {name.rstrip("2").removesuffix("_deep") for name, calls in run.items() if calls}
    others = {"matches", "against", "agreement", "buckets", "bucket", "keep_bucket", *SEMANTIC}
    assert {*pipeline.names()} - run_once == others, "which need other corpora, scores, buckets or vectors"


def test_planned_files_are_the_published_files_if_none_is_empty(tasks):
    """`keep` and the model remove all documents of some files, and some files have no removed documents."""
    _, run, (planned, published) = tasks
    assert planned["many"] == FILES / 2
    assert planned["many"] + planned["lines"] == run["publish"]
    assert planned["passages/many"] == planned["vectors/own/many"] == planned["many"]
    for place in ("many", "lines", "removed/many", "removed/lines", "vectors/own/many"):
        assert planned[place] >= published[place] > 0
    for place in ("bands/000", "bands2/003", "clusters2"):
        assert planned[place] == published[place]
    assert published.keys() - planned.keys() <= {"", "overlap", "overlap2", "contamination"}

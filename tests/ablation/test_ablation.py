"""A whole experiment: protocol, runs, resume, records that hold, and one error for each fault."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from small_corpus import build_here, prose, rows, table_of, write_rows, zyda_here
from small_mixtures import corpus_of, documents, experiment_file, mixture_file

from zyda_flows.flows.command.ablate import ended_on_error
from zyda_flows.tasks.ablation import training
from zyda_flows.tasks.ablation.ablation import ablate, planned
from zyda_flows.tasks.ablation.experiment import load_experiment
from zyda_flows.tasks.ablation.ordering import ordered, with_noise
from zyda_flows.tasks.ablation.planned_runs import EQUAL, listed_records
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.dependent_kinds import Subject
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.errors import BadInput, BadRecipe, BadRequest, Denied
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.storage.tables import read_table

pytestmark = pytest.mark.slow
PIQA = [{"goal": prose(f"goal {i}", 9), "sol1": "a b", "sol2": "c", "label": i % 2} for i in range(8)]


def url_of(corpus):
    return f"{corpus.recipe['storage']}/{corpus.recipe['name']}"


def write(folder, corpus, **changes):
    sizes = {"name": "small", "sequence": 32, "tokens": 4000}
    return str(experiment_file(folder, corpus, **{**sizes, **changes}))


def run_here(runs, finished):
    return [run() for run in runs]


def nothing(*_):
    return None


@pytest.fixture(scope="module")
def experiment(small, tmp_path_factory):
    """Return the file of a finished experiment and its result."""
    folder = tmp_path_factory.mktemp("experiment")
    pq.write_table(pa.Table.from_pylist(PIQA), folder / "piqa.parquet")
    write_rows(folder / "own.jsonl", rows(a=prose("own", 40)))
    path = write(
        folder, small,
        files=[{"name": "own", "url": "own.jsonl"}],
        evaluations=[{"name": "piqa", "url": "piqa.parquet"}],
        controls={"equal": False, "degraded": "replay"},
    )  # fmt: skip
    return path, ablate(load_experiment(path), run_here, nothing)


def test_all_measures_are_there(experiment):
    _, result = experiment
    names = {
        "source:good",
        "source:other",
        "held_out",
        "file:own",
        "gold:piqa",
        "accuracy:piqa",
        "accuracy_sum:piqa",
    }
    for series in result.series:
        assert {*series.means} == names | {"gold", "accuracy"}
        assert series.means["held_out"] == pytest.approx(
            (series.means["source:good"] + series.means["source:other"]) / 2
        )
    assert {(series.variant, len(series.curves)) for series in result.series} == {
        ("all", 2), ("long", 2), ("degraded control", 2),
    }  # fmt: skip
    assert [comparison.variant for comparison in result.comparisons] == ["long"]
    assert result.trainings.runs * 3968 == result.trainings.tokens


def test_the_command_reuses_finished_runs_and_writes_the_page(experiment):
    path, result = experiment
    done = zyda_here("ablate", path)
    assert done.returncode == 0, done.stderr
    folder = load_experiment(path).folder
    page, card = (folder.read(name).decode() for name in ("ablation.html", "README.md"))
    for text in (page, card):
        assert result.protocol in text
        assert "CPU, one core" in text
        assert "Degraded control: " in text
    assert page.count("<svg") == 1
    assert (
        "no difference seen; 4 of 5 such experiments would see" in done.stdout
        or "is better than" in done.stdout
        or "is worse" in done.stdout
    )
    listed = zyda_here("ablate", path, "--list")
    assert "6 of 6 runs of this experiment hold; 0 would be trained" in listed.stdout


def test_trainings_have_no_near_duplicates_of_held_out_documents(experiment, small):
    path, _ = experiment
    prepared, _, runs = planned(load_experiment(path), nothing)
    folder = runs[0].folder
    texts = {hash_of(row["text"]): row for row in documents([small]).values()}
    held_out = {
        name.removeprefix("source:"): read_table(folder, table).column("hash").to_pylist()
        for name, table in prepared.texts.items()
        if name.startswith("source:")
    }
    for source, hashes in held_out.items():
        assert 0 < len(hashes) <= 4
        assert all(texts[each]["source"] == source and texts[each]["n_tokens"] > 300 for each in hashes)
    held_texts = [texts[each]["text"] for hashes in held_out.values() for each in hashes]
    for run in runs:
        for part in run.parts:
            for each in read_table(folder, part.table).column("hash").to_pylist():
                words = set(texts[each]["text"].split())
                assert all(len(words & set(text.split())) < 0.8 * len(words) for text in held_texts)


def hash_of(text):
    return int(text_hashes(pa.array([text], pa.large_string()))[0][0])


def test_an_interrupted_run_continues_with_the_same_curve(experiment, small, tmp_path, monkeypatch):
    path = write(tmp_path, small)
    _, _, runs = planned(load_experiment(path), nothing)
    whole = runs[0]()
    folder = runs[0].folder
    folder.delete("runs")
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    steps, train_step = [], training.train_step

    def interrupted(*arguments):
        steps.append(1)
        if len(steps) == 12:
            raise KeyboardInterrupt
        return train_step(*arguments)

    monkeypatch.setattr(training, "train_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs[0]()
    assert len(folder.files("checkpoints")) == 1
    again = runs[0]()
    assert len(steps) == runs[0].settings.steps + 1
    assert (again.curve, again.measures) == (whole.curve, whole.measures)
    assert folder.files("checkpoints") == []


def test_another_protocol_is_refused_after_the_first_run(experiment):
    path, _ = experiment
    changed = yaml.safe_load(Path(path).read_text()) | {"measure": "file:own"}
    other = path.replace("experiment.yaml", "other.yaml")
    Path(other).write_text(yaml.safe_dump(changed))
    with pytest.raises(
        Denied, match="another protocol, with `measure` held_out, not file:own; a verdict by another"
    ):
        ablate(load_experiment(other), run_here, nothing)


def test_a_protocol_without_runs_is_replaced(small, tmp_path):
    for repeats, held_out in ((2, 4), (3, 2), (2, 4)):
        experiment = load_experiment(write(tmp_path, small, repeats=repeats, held_out=held_out))
        prepared, _, _ = planned(experiment, nothing)
        assert {*prepared.documents.values()} == {held_out}
        (protocol,) = (path for path in experiment.folder.files("") if path.startswith("protocol-"))
        assert json.loads(experiment.folder.read(protocol))["record"]["fields"]["repeats"] == repeats
    ablate(experiment, run_here, nothing)
    ablate(experiment, run_here, nothing)


def test_runs_hold_while_the_documents_are_similar(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=60)
    path = write(
        tmp_path, corpus, variants=[{"name": "all", "corpus": url_of(corpus)}], controls={"equal": True},
        tokens=1000,
    )  # fmt: skip
    first = ablate(load_experiment(path), run_here, nothing)
    assert first.equal is not None
    write_rows(
        tmp_path / "corpus/in/good-9.jsonl", rows(**{f"n{i}": prose(f"new {i}", 200) for i in range(1)})
    )
    build_here(corpus.load())
    _, _, runs = planned(load_experiment(path), nothing)
    assert [reason for _, reason in listed_records(runs)] == [""] * len(runs)
    write_rows(
        tmp_path / "corpus/in/good-9.jsonl", rows(**{f"n{i}": f"word{i % 7} " * 300 for i in range(90)})
    )
    build_here(corpus.load())
    _, _, runs = planned(load_experiment(path), nothing)
    reasons = {reason for _, reason in listed_records(runs)}
    assert all(re.match("part good has|another held-out", reason) for reason in reasons), reasons


def test_a_base_model_is_annealed(small, tmp_path, tokenizer):
    path = write(tmp_path, small, name="base")
    _, _, runs = planned(load_experiment(path), nothing)
    model = runs[0].new_model()
    training.train(model, training.TokenStream(*runs[0].documents_in_order()), runs[0].settings)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save(str(tmp_path / "model/tokenizer.json"))
    annealed = write(
        tmp_path, small, name="annealed", model={"base": "model"}, schedule="1-sqrt", warmup=0, rate=1e-3,
        variants=[{"name": "all", "corpus": url_of(small)}], controls={"equal": True},
    )  # fmt: skip
    result = ablate(load_experiment(annealed), run_here, nothing)
    whole = runs[0]()
    assert result.series[0].curves[0][0][1] < whole.curve[0][1] - 1
    assert result.series[0].means["held_out"] < whole.measures["held_out"]


def test_controls_have_the_first_size_only(small, tmp_path):
    controls = {"equal": True, "degraded": "noise"}
    path = write(tmp_path, small, model={"parameters": ["150K", "300K"]}, controls=controls)
    _, _, runs = planned(load_experiment(path), nothing)
    counts = Counter((run.size, run.variant) for run in runs)
    assert {*counts.values()} == {2}
    assert {*counts} == {
        (0, "all"), (0, "long"), (0, "equal control"), (0, "degraded control"), (1, "all"), (1, "long"),
    }  # fmt: skip


def test_order_and_noise(experiment):
    path, _ = experiment
    _, _, runs = planned(load_experiment(path), nothing)
    whole, order = runs[0].documents_in_order()
    _, same = runs[0].documents_in_order()
    assert np.array_equal(order, same)
    assert len({*order.tolist()}) == len(order)
    part = runs[0].parts[0]
    table = read_table(runs[0].folder, part.table)[: part.documents]
    _, order = ordered([(table, part.content.tokens, 1.0)], part.content.tokens, 1, 0.5)
    assert np.bincount(order).max() > 1
    noisy = with_noise(whole, 0.1)
    differing = noisy.ids != whole.ids
    assert 0.05 < differing.mean() < 0.11
    assert not differing[whole.ends[:-1]].any()
    for document in range(5):
        assert {*noisy.of(document).tolist()} <= {*whole.of(document).tolist()}


FAULTS = {
    "no base": ({"model": {"base": "nowhere"}}, BadRequest, "base: .*nowhere cannot be loaded: .*expected a folder with"),
    "budget": ({"tokens": "5M"}, BadRecipe, r"experiment.yaml:\d+: tokens: variant all: part good needs [\d,]+ tokens, but has"),
    "not published": (
        {"variants": [{"name": "a", "corpus": "nowhere"}, {"name": "b", "corpus": "nowhere"}]}, BadRecipe,
        r"experiment.yaml:\d+: .*nowhere: no corpus is published there",
    ),
    "unknown measure": ({"measure": "gold"}, BadRecipe, "measure: gold is not measured here; expected held_out"),
    "unknown field": ({"modle": 1}, BadRecipe, "modle: unknown field; did you mean model?"),
    "separator": ({"separator": "<eos>"}, BadRecipe, r"experiment.yaml:\d+: separator: the tokenizer has no token '<eos>'"),
    "same sizes": (
        {"model": {"parameters": ["150K", "151K"]}}, BadRecipe,
        r"experiment.yaml:\d+: model: both sizes are the model of 157,856 parameters",
    ),
    "small target": ({"target_tokens": 2000}, BadRecipe, "target_tokens: expected at least the `tokens` of a run"),
    "revision": ({"model": {"parameters": "150K", "revision": "x"}}, BadRecipe, "revision: it applies to `base`"),
    "unknown column": (
        {"variants": [{"name": "a", "corpus": "out/small", "where": "nocolumn > 1"}], "controls": {"equal": True}},
        BadRecipe, "where: no column nocolumn is published",
    ),
    "no condition": (
        {"variants": [{"name": "a", "corpus": "out/small", "where": ";drop"}], "controls": {"equal": True}},
        BadRecipe, "where: ",
    ),
    "empty file": ({"files": [{"name": "own", "url": "empty.jsonl"}]}, BadInput, "empty.jsonl: its texts are empty"),
    "few parameters": ({"model": {"parameters": "100M"}, "sequence": 16}, None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault[1]])
def test_one_error_for_each_fault(name, small, tmp_path):
    changes, kind, message = FAULTS[name]
    write_rows(tmp_path / "empty.jsonl", rows(a=""))
    for variant in changes.get("variants", ()):
        variant["corpus"] = variant["corpus"].replace("out/small", url_of(small))
    path = write(tmp_path, small, **changes)
    with pytest.raises(kind, match=message) as error:
        ablate(load_experiment(path), run_here, nothing)
    assert len({*error.value.faults}) == (2 if name == "not published" else 1)


def test_a_base_model_must_have_the_same_tokenizer(small, tmp_path, tokenizer):
    path = write(tmp_path, small, name="made")
    _, _, runs = planned(load_experiment(path), nothing)
    runs[0].new_model().save_pretrained(tmp_path / "model")
    other = json.loads(tokenizer.to_str())
    other["added_tokens"].append({**other["added_tokens"][0], "id": 4096, "content": "<new>"})
    (tmp_path / "model/tokenizer.json").write_text(json.dumps(other))
    path = write(tmp_path, small, name="other", model={"base": "model"})
    with pytest.raises(BadRequest, match="has other ids than `tokenizer`"):
        planned(load_experiment(path), nothing)
    config = json.loads((tmp_path / "model/config.json").read_text())
    (tmp_path / "model/config.json").write_text(
        json.dumps(config | {"architectures": ["LlamaForSequenceClassification"]})
    )
    with pytest.raises(
        BadRequest, match=r"is no causal language model: its config\.json names LlamaForSequenceClass"
    ):
        planned(load_experiment(path), nothing)


def test_processes_of_runs_end_on_an_error():
    older, newer = (get_context("spawn").Process(target=time.sleep, args=(600,)) for _ in range(2))
    older.start()

    def interrupted():
        with ended_on_error():
            newer.start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    newer.join()
    assert newer.exitcode == -signal.SIGTERM
    assert older.is_alive()
    older.terminate()
    older.join()


def test_processes_of_runs_end_with_a_killed_command():
    program = (
        "import os, signal, time\n"
        "from zyda_flows.flows.command.processes import own_processes\n"
        "if __name__ == '__main__':\n"
        "    with own_processes(1) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n"
        "        pool.submit(time.sleep, 600)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    end = time.monotonic() + 20
    while Path(f"/proc/{int(killed.stdout)}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_recipe_must_be_built(small, tmp_path):
    small.write()
    built = write(
        tmp_path, small, variants=[{"name": "a", "recipe": str(small.path)}], controls={"equal": True}
    )
    prepared, _, _ = planned(load_experiment(built), nothing)
    assert [part.content.name for part in prepared.variants[0].parts] == ["good", "other"]
    recipe = tmp_path / "new.yaml"
    recipe.write_text(small.path.read_text().replace("name: small", "name: new"))
    path = write(tmp_path, small, variants=[{"name": "a", "recipe": "new.yaml"}], controls={"equal": True})
    with pytest.raises(
        BadRecipe, match=f"experiment.yaml:\\d+: .*new.yaml is not built; zyda build {recipe} builds it"
    ):
        planned(load_experiment(path), nothing)


def test_mixtures_have_their_weights_and_repeats(small, tmp_path):
    parts = [
        {"name": "good", "source": "good", "weight": 3},
        {"name": "other", "source": "other", "weight": 1},
    ]
    mixture_file(tmp_path, [small], parts=parts, budget={"tokens": "100K"})
    variants = [{"name": "natural", "corpus": url_of(small)}, {"name": "weighted", "mixture": "mixture.yaml"}]
    path = write(tmp_path, small, name="mixed", variants=variants)
    prepared, _, _ = planned(load_experiment(path), nothing)
    natural, weighted = ({part.content.name: part.content for part in v.parts} for v in prepared.variants)
    counts = {
        source: sum(row["n_tokens"] for row in documents([small]).values() if row["source"] == source)
        for source in ("good", "other")
    }
    assert natural["good"].share == pytest.approx(counts["good"] / sum(counts.values()))
    assert natural["good"].epochs == 1
    assert weighted["good"].share == 0.75
    assert weighted["good"].epochs == pytest.approx(75_000 / counts["good"])
    assert weighted["good"].tokens == pytest.approx(4000 * 0.75 / weighted["good"].epochs, abs=1000)


def test_removal_requests_list_experiments_with_their_documents(small, experiment):
    path, _ = experiment
    corpus = PublishedCorpus.at(url_of(small))
    folder = load_experiment(path).folder
    published = table_of(small.load(), "good")
    removed = [row["doc_id"] for table in corpus.tables("removed", ["doc_id"]) for row in table.to_pylist()]
    for ids, expected in (([row["doc_id"] for row in published[:2]], [2]), (removed[:1], [])):
        search = Search()
        search.look_into(folder.url.rpartition("/")[0])
        search.follow(Subject(corpus, np.array(sorted(ids), np.uint64)))
        assert [each.documents for each in search.dependents] == expected
        assert all((each.kind, each.url) == ("experiment", folder.url) for each in search.dependents)
        assert search.not_searched == []


def test_each_repeat_and_the_equal_control_read_other_documents(small, tmp_path):
    path = write(tmp_path, small, tokens=2000, controls={"equal": True})
    prepared, _, runs = planned(load_experiment(path), nothing)
    read = {}
    for run in runs:
        for part in run.parts:
            table = read_table(run.folder, part.table)[: part.documents]
            read[run.variant, run.input.seed, part.content.name] = {*table.column("hash").to_pylist()}
    for name in ("good", "other"):
        own = [
            read[variant, seed, part]
            for variant, seed, part in read
            if variant in ("all", EQUAL) and part == name
        ]
        assert len(own) == 4
        assert sum(map(len, own)) == len(set.union(*own))
    assert prepared.variants[0].different == (4, 4)
    long = read["long", 1, "good"]
    assert long & read["all", 1, "good"]
    assert not long & read["all", 2, "good"]


def test_a_corpus_without_enough_documents_is_read_by_several_repeats(small, tmp_path):
    path = write(tmp_path, small, tokens=9000, repeats=8)
    prepared, _, runs = planned(load_experiment(path), nothing)
    different = prepared.variants[0].different
    assert 1 < min(different) < 8
    digests = [run.parts[0].content.digest for run in runs if run.variant == "all"]
    assert len({*digests}) == different[0]
    assert digests[: 8 - different[0]] == digests[different[0] :]


def test_runs_do_not_hold_for_another_definition_or_file(small, tmp_path):
    own = tmp_path / "own.jsonl"
    write_rows(own, rows(a=prose("own", 40)))
    changes = {"files": [{"name": "own", "url": "own.jsonl"}], "tokens": 2000}
    path = write(tmp_path, small, **changes)
    ablate(load_experiment(path), run_here, nothing)

    def reasons(path):
        _, _, runs = planned(load_experiment(path), nothing)
        return {(record.variant, reason) for record, reason in listed_records(runs)}

    assert reasons(path) == {("all", ""), ("long", "")}
    write_rows(own, rows(a=prose("another", 40)))
    text = "another held-out set, file of texts or evaluation set"
    assert reasons(path) == {("all", text), ("long", text)}
    write_rows(own, rows(a=prose("own", 40)))
    variants = yaml.safe_load(Path(path).read_text())["variants"]
    variants[1]["where"] = "n_tokens > 301"
    path = write(tmp_path, small, variants=variants, **changes)
    assert reasons(path) == {("all", ""), ("long", "another definition of the variant")}


def test_protocol_of_runs_must_not_be_deleted(small, tmp_path):
    path = write(tmp_path, small, tokens=2000, repeats=2)
    experiment = load_experiment(path)
    ablate(experiment, run_here, nothing)
    (protocol,) = (name for name in experiment.folder.files("") if name.startswith("protocol-"))
    experiment.folder.delete(protocol)
    with pytest.raises(Denied, match=r"its runs have no protocol-\*\.json any more"):
        planned(load_experiment(write(tmp_path, small, tokens=2000, repeats=3)), nothing)

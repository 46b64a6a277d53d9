"""Test mixtures: each token belongs to its document, and the amounts equal the settings."""

import gzip
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow.parquet as pq
import pytest
from patience import HANG
from prefect.client.orchestration import get_client
from prefect.task_runners import ThreadPoolTaskRunner
from small_corpus import TOKENIZER, build_here, edited, prose, rows, write_rows
from small_mixtures import (
    END,
    all_files,
    corpus_of,
    documents,
    megatron,
    mixed_in,
    mixing_of,
    mixture_file,
    origins,
    run_here,
)
from tokenizers import Tokenizer

from zyda_flows.flows import mix as flow_module
from zyda_flows.flows.server.exclusion import is_held, mixture_lock_name
from zyda_flows.tasks.errors import BadRecipe, Denied, NotConserved
from zyda_flows.tasks.mixing import formats, gathering
from zyda_flows.tasks.mixing.mixing import LOCK, SEQUENCES, mix_all
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.tasks.mixing.tracing import Trace
from zyda_flows.tasks.storage import holding

FORMATS = ["megatron", "datatrove", "olmo", "torchtitan", "parquet", "text"]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, compiled):
    """Return two published corpora: of scope `across` (several documents of a cluster are kept) and `global`."""
    folder = tmp_path_factory.mktemp("corpora")
    return [
        corpus_of(folder / "a", "small", documents=60),
        corpus_of(folder / "b", "second", documents=30, dedup={"scope": "global"}),
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(TOKENIZER))


def ids_of(tokenizer, row):
    return [*tokenizer.encode(row["text"], add_special_tokens=False).ids, tokenizer.token_to_id(END)]


def test_every_token_of_every_format_belongs_to_its_document(corpora, tokenizer, tmp_path):
    path = mixture_file(tmp_path, corpora, formats=FORMATS, validation={"share": 0.1}, file_gib=15e-6)
    mixed, place = mixed_in(path)
    rows_by_document, labels = documents(corpora), ["small", "second"]
    assert len(mixed.outputs) > 3
    train = [output for output in mixed.outputs if output.name.startswith("train")]
    assert len(mixed.texts) == len(train) + 1  # the last file has all held-out documents
    for output, text in zip(mixed.outputs, [*mixed.texts, mixed.texts[-1]], strict=False):
        pieces, sequences = origins(place, output.name), megatron(place, output.name)
        assert len(pieces) == len(sequences) == output.sequences
        expected = [
            ids_of(tokenizer, rows_by_document[labels[row["corpus"]], row["doc_id"]]) for row in pieces
        ]
        assert [item.tolist() for item in sequences] == expected
        starts = np.cumsum([0, *map(len, expected)])
        assert [(row["start"], row["tokens"], row["sequence"], row["offset"]) for row in pieces] == [
            (start, len(ids), number, 0)
            for number, (start, ids) in enumerate(zip(starts[:-1], expected, strict=True))
        ]
        flat = np.concatenate(sequences).tolist()
        data = np.fromfile(place / f"datatrove/{output.name}.ds", "<u2")
        ends = np.fromfile(place / f"datatrove/{output.name}.ds.index", "<u8")
        metadata = (place / f"datatrove/{output.name}.ds.metadata").read_text().splitlines()
        assert (data.tolist(), ends.tolist()) == (flat, starts[1:].tolist())
        assert metadata[:2] == [f"{TOKENIZER.name}|2", str(len(flat))]
        assert np.fromfile(place / f"olmo/{output.name}.npy", "<u2").tolist() == flat
        lines = gzip.decompress((place / f"olmo/{output.name}.csv.gz").read_bytes()).decode().splitlines()
        assert lines == [
            f"{start},{end},{row['doc_id']},{labels[row['corpus']]},{row['copy']}"
            for start, end, row in zip(starts[:-1], starts[1:], pieces, strict=True)
        ]
        titan = place / f"torchtitan/{output.name}"
        assert np.fromfile(titan / "tokens.bin", "<u4").tolist() == flat
        assert np.load(titan / "document_offsets.npy", allow_pickle=False).tolist() == starts.tolist()
        token_lists = pq.read_table(place / f"parquet/{output.name}.parquet").column("input_ids").to_pylist()
        assert token_lists == expected
        if output not in train and len(mixed.outputs) > len(mixed.texts):
            continue
        texts = pq.read_table(place / f"text/{text.name}.parquet").to_pylist()
        assert [(row["corpus"], row["doc_id"]) for row in texts] == [
            (labels[piece["corpus"]], piece["doc_id"]) for piece in pieces
        ]
        assert [row["text"] for row in texts] == [
            rows_by_document[row["corpus"], row["doc_id"]]["text"] for row in texts
        ]
    counts = json.loads((place / "megatron/sequences.json").read_text())
    assert counts == {
        f"{place}/megatron/{item.name}": [item.sequences, item.sequences + 1] for item in mixed.outputs
    }


def copies_in(mixed, place, kind="train"):
    """Count the copies of each document, by part."""
    return Counter(
        (mixed.parts[row["part"]].name, mixed.corpora[row["corpus"]].label, row["doc_id"])
        for output in mixed.outputs
        if output.name.startswith(kind)
        for row in origins(place, output.name)
        if row["offset"] == 0
    )


def test_parts_have_their_shares_and_the_counts_equal_the_files(corpora, tokenizer, tmp_path):
    parts = [
        {"name": "long", "source": "good", "where": "n_tokens > 300", "weight": 3},
        {"name": "second", "corpus": "second", "source": ["good", "other"], "weight": 2},
        {"name": "rest", "weight": 5, "max_epochs": 9},
    ]
    path = mixture_file(tmp_path, corpora, parts=parts, budget={"tokens": 100_000})
    mixed, place = mixed_in(path)
    rows_by_document = documents(corpora)
    lengths = {key: len(ids_of(tokenizer, row)) for key, row in rows_by_document.items()}
    keys_by_part = {"long": [], "second": [], "rest": []}
    for key, row in rows_by_document.items():
        is_long = row["source"] == "good" and row["n_tokens"] > 300
        keys_by_part["long" if is_long else "second" if key[0] == "second" else "rest"].append(key)
    copies = copies_in(mixed, place)
    assert not mixed.left_out
    longest = max(lengths.values())
    for part, share in zip(mixed.parts, (0.3, 0.2, 0.5), strict=True):
        copies_by_key = {key: copies.get((part.name, *key), 0) for key in keys_by_part[part.name]}
        one_epoch = sum(lengths[key] for key in copies_by_key)
        written = sum(lengths[key] * count for key, count in copies_by_key.items())
        assert (part.documents, part.tokens, part.repeated) == (len(copies_by_key), one_epoch, 0)
        assert (part.written, part.copies) == (written, sum(copies_by_key.values()))
        assert abs(written - 100_000 * share) <= longest / 2
        complete_epochs = int(100_000 * share / one_epoch)
        assert set(copies_by_key.values()) <= {complete_epochs, complete_epochs + 1}
    assert sum(copies.values()) == sum(part.copies for part in mixed.parts)
    assert mixed.tokens == sum(part.written for part in mixed.parts)


def test_epochs_are_set_by_part_or_for_all_parts(corpora, tmp_path):
    parts = [
        {"name": "good", "source": "good", "epochs": 2},
        {"name": "other", "source": "other", "epochs": 0.5},
    ]
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, parts=parts, budget=...))
    good, other = mixed.parts
    assert good.written == 2 * good.tokens
    assert other.written == pytest.approx(other.tokens / 2, abs=200)
    assert set(copies_in(mixed, place).values()) == {1, 2}
    mixed, _ = mixed_in(mixture_file(tmp_path, corpora, budget={"epochs": 1.25}))
    assert mixed.tokens == pytest.approx(1.25 * sum(part.tokens for part in mixed.parts), abs=600)


def test_repeats_follow_cluster_size_and_are_shared_by_published_members(corpora, tmp_path):
    repeat = {1: 1, 2: 2, 3: 5, 100: 1}
    parts = [{"name": "all", "epochs": 1}]
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, parts=parts, budget=..., repeat=repeat))
    copies, clusters = Counter(), {}
    for (_, label, doc_id), count in copies_in(mixed, place).items():
        copies[label, doc_id] = count
    rows_by_document = documents(corpora)
    for (label, doc_id), row in rows_by_document.items():
        if row["cluster_size"] > 1:
            clusters.setdefault((label, row["cluster_id"]), []).append((doc_id, row["cluster_size"]))
        else:
            assert copies[label, doc_id] == 1
    sizes = Counter()
    for (label, _), members in clusters.items():
        expected = {1: 1, 2: 2, 3: 5}[members[0][1]]
        assert sum(copies[label, doc_id] for doc_id, _ in members) == expected
        shares = [copies[label, doc_id] for doc_id, _ in sorted(members)]
        assert shares == sorted(shares, reverse=True)
        assert max(shares) - min(shares) <= 1
        sizes[len(members)] += 1
    assert sizes[2] + sizes[3] >= 2  # otherwise no cluster of `across` has several members
    assert mixed.parts[0].repeated > 0


def test_held_out_documents_have_no_near_duplicates_in_training(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, validation={"share": 0.3}, budget={"tokens": 60_000}, max_epochs=8)
    mixed, place = mixed_in(path)
    train, held_out = copies_in(mixed, place), copies_in(mixed, place, "validation")
    assert not set(train) & set(held_out)
    assert set(held_out.values()) == {1}
    rows_by_document, published_members = documents(corpora), Counter()
    for (label, _), row in rows_by_document.items():
        published_members[label, row["cluster_id"]] += 1
    assert all(
        published_members[label, rows_by_document[label, doc_id]["cluster_id"]] <= 1
        for _, label, doc_id in held_out
    )
    assert 0.15 < len(held_out) / len(rows_by_document) < 0.45
    assert [sum(1 for key in held_out if key[0] == part.name) for part in mixed.parts] == [
        part_of_mixture.held_out for part_of_mixture in mixed.parts
    ]
    second, _ = mixed_in(
        mixture_file(tmp_path, corpora, validation={"share": 0.3}, budget={"tokens": 30_000})
    )
    assert [part.held_out for part in second.parts] == [part.held_out for part in mixed.parts]


@pytest.mark.slow
def test_documents_with_a_near_duplicate_in_another_corpus_are_not_held_out(tmp_path, compiled):
    """Both corpora contain slightly changed copies of 30 texts; these texts must not be held out."""
    corpora = []
    for name, edits in (("first", 0), ("second", 2)):
        folder = tmp_path / name
        corpus = corpus_of(folder, name, documents=40)
        write_rows(
            folder / "in/good-7.jsonl",
            rows(**{f"common{i}": edited(prose(f"common {i}"), edits) for i in range(30)}),
        )
        build_here(corpus.load())
        corpora.append(corpus)
    path = mixture_file(tmp_path, corpora, validation={"share": 0.5}, budget={"tokens": 10_000})
    mixed, place = mixed_in(path)
    rows_by_document = documents(corpora)
    names = {
        rows_by_document[label, doc_id]["name"] for _, label, doc_id in copies_in(mixed, place, "validation")
    }
    assert len(names) > 20
    assert not {name for name in names if name.startswith("common")}
    assert (mixed.not_compared, mixed.recall) == ((), pytest.approx(1 - (1 - 0.9**16) ** 8))
    alone, place = mixed_in(
        mixture_file(tmp_path / "alone", corpora[:1], validation={"share": 0.5}, budget={"tokens": 9000})
    )
    names = {
        rows_by_document["first", doc_id]["name"] for _, _, doc_id in copies_in(alone, place, "validation")
    }
    assert {name for name in names if name.startswith("common")}
    other = corpus_of(tmp_path / "third", "third", documents=10, dedup={"bands": 16, "values": 128})
    mixed, _ = mixed_in(
        mixture_file(tmp_path / "c", [corpora[0], other], validation={"share": 0.5}, budget={"tokens": 9000})
    )
    assert mixed.not_compared == (("first", "third"),)


@pytest.mark.parametrize("size", [16, 100, 4096])
def test_packed_sequences_have_equal_length_and_contain_every_token(corpora, tokenizer, tmp_path, size):
    path = mixture_file(tmp_path, corpora, packed=size, formats=["megatron"], begin=END)
    mixed, place = mixed_in(path)
    output = mixed.outputs[0]
    sequences, pieces = megatron(place, output.name), origins(place, output.name)
    assert {len(sequence) for sequence in sequences} == {size}
    flat, covered = np.concatenate(sequences), np.zeros(output.tokens, bool)
    tokens_by_copy, rows_by_document = {}, documents(corpora)
    for row in pieces:
        part = slice(row["start"], row["start"] + row["tokens"])
        assert row["sequence"] == row["start"] // size == (part.stop - 1) // size
        assert not covered[part].any()
        covered[part] = True
        tokens_by_copy.setdefault((mixed.corpora[row["corpus"]].label, row["doc_id"], row["copy"]), {})[
            row["offset"]
        ] = flat[part]
    end = tokenizer.token_to_id(END)
    for (label, doc_id, _), pieces_by_offset in tokens_by_copy.items():
        tokens = np.concatenate([pieces_by_offset[offset] for offset in sorted(pieces_by_offset)]).tolist()
        assert tokens == [end, *ids_of(tokenizer, rows_by_document[label, doc_id])]
    assert (flat[~covered] == end).all()
    assert output.padded == (~covered).sum()
    assert output.cut == sum(row["tokens"] for row in pieces if row["offset"])
    assert output.cut == sum(max(0, part.written) for part in mixed.parts) - sum(
        row["tokens"] for row in pieces if not row["offset"]
    )
    if size == 100:
        assert output.padded < 0.02 * output.tokens
        firsts = [row["tokens"] for row in pieces if row["start"] % size == 0]
        assert np.corrcoef(np.arange(len(firsts)), firsts)[0, 1] < 0.3  # best fit alone orders by length


@pytest.mark.slow
def test_memory_processes_and_interruptions_do_not_change_the_files(corpora, tmp_path, monkeypatch):
    options = {"formats": FORMATS, "validation": {"share": 0.1}, "file_gib": 2e-5, "packed": 64}
    _, place = mixed_in(mixture_file(tmp_path / "a", corpora, **options))
    expected = all_files(place)
    monkeypatch.setattr(gathering, "MEMORY_BYTES", 4096)
    path = mixture_file(tmp_path / "b", corpora, **{**options, "packed": ...})
    _, place = mixed_in(path)
    monkeypatch.undo()
    plain = all_files(place)
    _, place = mixed_in(mixture_file(tmp_path / "c", corpora, **{**options, "packed": ...}))
    files = all_files(place)
    assert files.keys() == plain.keys()
    for name in files:  # row group sizes depend on memory; rows do not
        if name.endswith(".parquet"):
            assert pq.read_table(BytesIO(files[name])).equals(pq.read_table(BytesIO(plain[name])))
        elif not name.endswith(".json"):
            assert files[name] == plain[name], name
    path = mixture_file(tmp_path / "d", corpora, **options)
    for jobs_before in (0, 1, 2, 3, 5, 6, 7, 9):
        remaining = [jobs_before]

        def interrupted(jobs, step, remaining=remaining):
            for job in jobs:
                if not remaining[0]:
                    raise KeyboardInterrupt
                remaining[0] -= 1
                job()
            return run_here(jobs, step)

        with pytest.raises(KeyboardInterrupt):
            mixed_in(path, interrupted)
    _, place = mixed_in(path, lambda jobs, step: run_here(jobs[::-1], step)[::-1])
    files = all_files(place)
    assert files.keys() == expected.keys()
    assert all(files[name] == expected[name] for name in files if not name.endswith(".json"))


def counting(jobs_by_step):
    def spread(jobs, step):
        done = []
        for job in jobs:
            before = job.made_before() if hasattr(job, "made_before") else None
            jobs_by_step[step] += before is None
            done.append(job())
        return done

    return spread


def without_prefixes(files):
    """Return the files without the file that contains absolute paths."""
    return {path: content for path, content in files.items() if path != SEQUENCES}


def test_two_concurrent_mixes_with_the_same_name_do_not_interfere(corpora, tmp_path, monkeypatch):
    weights = [[{"name": "good", "source": "good", "weight": weight}] for weight in (1, 2)]
    alone = [
        all_files(mixed_in(mixture_file(tmp_path / f"alone{i}", corpora, parts=parts))[1])
        for i, parts in enumerate(weights)
    ]
    first, second = (
        inputs_of(
            load_mixture(str(mixture_file(tmp_path / str(i), corpora, parts=parts)), storage=str(tmp_path))
        )
        for i, parts in enumerate(weights)
    )
    is_shuffled, waits = Event(), Event()

    def until_the_other_waits(jobs, step):
        if step.startswith("files of"):
            is_shuffled.set()
            assert waits.wait(HANG)
        return run_here(jobs, step)

    monkeypatch.setattr(holding, "warn", lambda line: waits.set() if "another mix" in line else None)
    with ThreadPoolExecutor(2) as threads:
        mixes = [threads.submit(mix_all, first, until_the_other_waits)]
        assert is_shuffled.wait(HANG)
        mixes.append(threads.submit(mix_all, second, run_here))
        places = [second.folder.path(mix.result().place) for mix in mixes]
    for place, files in zip(places, alone, strict=True):
        assert without_prefixes(all_files(Path(place))) == without_prefixes(files)


def test_changed_weight_encodes_nothing_again_and_a_new_file_only_itself(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=20)
    jobs_by_step = Counter()
    mixed_in(mixture_file(tmp_path, [corpus]), counting(jobs_by_step))
    assert jobs_by_step["tokens"] == jobs_by_step["choice"] == 6
    jobs_by_step.clear()
    parts = [
        {"name": "good", "source": "good", "weight": 3},
        {"name": "other", "source": "other", "weight": 1},
    ]
    mixed, _ = mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert (jobs_by_step["tokens"], jobs_by_step["choice"], jobs_by_step["tallies"]) == (0, 0, 0)
    assert jobs_by_step["shuffle of ids"] == 6
    assert mixed.parts[0].written == pytest.approx(15_000, abs=300)
    jobs_by_step.clear()
    mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert not +jobs_by_step
    write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
    build_here(corpus.load())
    mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert jobs_by_step["tokens"] == 1


def test_damaged_work_files_are_repaired(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, budget={"tokens": 10_000})
    _, place = mixed_in(path)
    expected = all_files(place)
    for step in ("tokens", "chosen", "tallies"):
        for name in sorted((place.parent / f"work/{step}").rglob("*.parquet"))[:2]:
            content = bytearray(name.read_bytes())
            content[len(content) // 3] ^= 0xFF
            name.chmod(0o644)
            name.write_bytes(content)
    (place / "mixture.json").unlink()
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert all_files(place) == expected
    cut = place / "megatron/train-00000.bin"
    cut.chmod(0o644)
    cut.write_bytes(b"")
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert all_files(place) == expected


def test_corpus_published_again_during_a_mix_raises(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=10)
    path = mixture_file(tmp_path, [corpus], budget={"tokens": 3000})

    def slow(jobs, step):
        if step == "files of ids":
            write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
            build_here(corpus.load())
        return run_here(jobs, step)

    with pytest.raises(Denied, match="another version of this corpus was published meanwhile; start again"):
        mixed_in(path, slow)
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()
    mixed, _ = mixed_in(path)
    assert sum(part.documents + part.held_out for part in mixed.parts) == len(documents([corpus]))


BAD = {
    "no such corpus": ({"corpora_": ["nowhere"]}, "nowhere: no corpus is published there"),
    "no such source": ({"parts": [{"name": "a", "source": "bad", "weight": 1}]}, r"parts\[0\] a: there is no source bad"),
    "no documents": (
        {"parts": [{"name": "a", "where": "n_tokens > 99999", "weight": 1}]}, r"parts\[0\] a: it has no documents",
    ),
    "no such column": (
        {"parts": [{"name": "a", "where": "quality > 1", "weight": 1}]}, r'where: source good: unable to find column "quality"',
    ),
    "nothing": ({"parts": [{"name": "a", "weight": 0}]}, "the sum of the weights is 0"),
    "no budget": ({"budget": ...}, "parts with a `weight` need a `budget`"),
    "both": ({"parts": [{"name": "a", "weight": 1, "epochs": 1}]}, "both `weight` and `epochs`"),
    "too much": ({"budget": {"tokens": "1B"}}, r"requires 500,000,000 tokens, but 4 epochs have [0-9,]+; lower"),
    "too much of all": (
        {"budget": {"tokens": "1B"}, "shortfall": "share"}, "budget: 1,000,000,000 tokens, but all parts have",
    ),
    "no such token": ({"end": "<eos>"}, "end: the tokenizer has no token '<eos>'; its special tokens are <|endoftext|>"),
    "packed without end": ({"end": None, "packed": 64}, "packed: sequences are filled with the end-of-document token"),
    "twice": ({"parts": [{"name": "a", "weight": 1}] * 2}, "two parts have the name a"),
    "repeat": ({"repeat": {2: 1}}, "the smallest size must be 1"),
    "format": ({"formats": ["mosaic"]}, "formats"),
    "formats": ({"formats": ["olmo", "olmo"]}, "mixture: formats: a format is listed twice"),
    "files": ({"file_gib": 1e-6, "budget": {"tokens": "50M"}, "max_epochs": 1000}, r"makes [0-9,]+ files, more than 32,767"),
    "tiny files": ({"file_gib": 1e-300}, "file_gib: expected at least"),
    "unknown": ({"shuffle": True}, "shuffle: unknown field"),
    "like a field": ({"fomats": ["olmo"]}, "fomats: unknown field; did you mean formats?"),
    "of a part": ({"parts": [{"name": "a", "wieght": 1}]}, r"parts\[0\].wieght: unknown field; did you mean weight"),
    "of a recipe": ({"sources": []}, "sources: unknown field$"),
    "tokenizer": ({"tokenizer": "none.json"}, "cannot be loaded"),
    "tokens": ({"budget": {"tokens": "many"}}, "expected a number of tokens"),
    "less": ({"budget": {"tokens": 1}}, "nothing would be written"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_mixture_raises_one_line_before_writing(corpora, tmp_path, case):
    changes, expected = dict(BAD[case][0]), BAD[case][1]
    with pytest.raises((BadRecipe, Denied), match=expected) as raised:
        mixed_in(mixture_file(tmp_path, changes.pop("corpora_", corpora), **changes))
    assert all("\n" not in fault for fault in raised.value.faults)
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()


def test_unwritable_folder_raises(corpora, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Denied, match="nothing can be written there"):
        mixed_in(mixture_file(tmp_path, corpora, storage=str(tmp_path / "file")))


def test_failed_lock_raises_and_missing_support_warns(corpora, tmp_path, monkeypatch):
    inputs = inputs_of(load_mixture(str(mixture_file(tmp_path, corpora))))
    lock = Path(inputs.folder.path(LOCK))
    lock.mkdir(parents=True)
    with pytest.raises(Denied, match=f"{inputs.folder.url}: IsADirectoryError"):
        mix_all(inputs, run_here)
    lock.rmdir()

    def no_locks(self, **_):
        raise NotImplementedError

    warnings = []
    monkeypatch.setattr(holding, "warn", warnings.append)
    monkeypatch.setattr(holding.FileLock, "acquire", no_locks)
    assert mix_all(inputs, run_here).outputs
    assert warnings == [f"{inputs.folder.url}: this disk knows no locks, so start no second mix there"]


@pytest.mark.slow
def test_mix_in_prefect_holds_the_lock_until_it_ends(corpora, server, tmp_path, monkeypatch):
    path, lock_states = str(mixture_file(tmp_path, corpora)), []
    name = mixture_lock_name(load_mixture(path))

    def note_lock(inputs, mixed):
        lock_states.append(is_held(name))

    monkeypatch.setattr(flow_module, "show", note_lock)
    mix = flow_module.mix.with_options(task_runner=ThreadPoolTaskRunner())
    mix(path)
    assert lock_states == [True]
    assert not is_held(name)
    url = mix(str(mixture_file(tmp_path, corpora, seed=9)), forget=True)
    versions = {file.parent for file in (tmp_path / "mixed/mixture").glob("*/mixture.json")}
    assert {str(version) for version in versions} == {url}


def test_shortfall_share_is_distributed_to_the_other_parts(corpora, tmp_path):
    parts = [{"name": "good", "source": "good", "weight": 9, "max_epochs": 1}, {"name": "other", "weight": 1}]
    options = {"parts": parts, "shortfall": "share", "max_epochs": 5}
    mixed, _ = mixed_in(mixture_file(tmp_path, corpora, budget={"tokens": 50_000}, **options))
    good, other = mixed.parts
    assert good.written == good.tokens
    assert other.written == pytest.approx(50_000 - good.tokens, abs=300)


@pytest.mark.slow
def test_vocabulary_size_that_megatron_readers_misinterpret_raises(corpora, tmp_path, tokenizer):
    extended = Tokenizer.from_file(str(TOKENIZER))
    extended.add_tokens([f"<{n}>" for n in range(65_520 - extended.get_vocab_size())])
    extended.save(str(tmp_path / "t.json"))
    with pytest.raises(BadRecipe, match="between 65,500 and 65,536, and this one has 65,520"):
        mixing_of(mixture_file(tmp_path, corpora, tokenizer=str(tmp_path / "t.json")))
    extended.add_tokens([f"<more {n}>" for n in range(100)])
    extended.save(str(tmp_path / "t.json"))
    mixed, place = mixed_in(mixture_file(tmp_path, corpora[:1], tokenizer=str(tmp_path / "t.json")))
    assert mixed.width == 4
    rows_by_document = documents(corpora)
    row = origins(place, "train-00000")[0]
    assert megatron(place, "train-00000")[0].tolist() == ids_of(
        tokenizer, rows_by_document["small", row["doc_id"]]
    )


def test_manifest_names_the_current_version(corpora, tmp_path):
    _, place = mixed_in(mixture_file(tmp_path, corpora))
    assert json.loads((place / "mixture.json").read_text())["place"] == place.name
    assert json.loads((place.parent / "mixture.json").read_text())["place"] == place.name


def test_mixture_on_an_object_store_has_the_same_bytes(corpora, s3, tmp_path):
    options = {"formats": FORMATS, "validation": {"share": 0.1}}
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, **options))
    path = mixture_file(tmp_path / "on-s3", corpora, storage=f"{s3}/mixtures", **options)
    mixing = mixing_of(path)
    assert mixing.mix().outputs == mixed.outputs
    expected = {name: content for name, content in all_files(place).items() if not name.endswith(".json")}
    stored = mixing.folder.folder(mixing.place)
    assert {name: stored.read(name) for name in expected} == expected
    assert Trace.at(mixing.folder.url).output(None, 100)[1] == 100
    assert not [name for name in mixing.folder.files("") if "segments" in name]
    made_again = Counter()
    mixed_in_store = mixing_of(path, counting(made_again))
    mixed_in_store.mix()
    assert not +made_again


@pytest.mark.slow
def test_repeats_are_complete_if_rounds_have_equal_cluster_ids(tmp_path, compiled):
    """After three rounds of scope `global`, each document is the only published member of its clusters."""
    rounds = [
        {"exact": "text", "scope": "global"},
        {"bands": 8, "scope": "global"},
        {"bands": 32, "scope": "global"},
    ]
    corpus = corpus_of(tmp_path / "corpus", documents=10, dedup=rounds)
    texts = {f"n{i}": edited(prose(f"of many {i // 4}", 200), i % 4 * 3) for i in range(80)}
    write_rows(tmp_path / "corpus/in/good-8.jsonl", rows(**texts))
    build_here(corpus.load())
    rows_by_document = documents([corpus])
    names = ("cluster_id", "cluster_id2", "cluster_id3")
    assert any(sum(row[name] is not None for name in names) > 1 for row in rows_by_document.values())
    options = {"parts": [{"name": "all", "epochs": 1}], "budget": ..., "validation": {"share": 0.0001}}
    mixed, place = mixed_in(mixture_file(tmp_path, [corpus], repeat={1: 4}, **options))
    assert set(copies_in(mixed, place).values()) == {4}
    assert mixed.parts[0].copies + 4 * mixed.parts[0].held_out == 4 * len(rows_by_document)


def test_last_text_shard_contains_all_held_out_documents(corpora, tmp_path):
    options = {"formats": ["text", "megatron"], "validation": {"share": 0.3}, "file_gib": 5e-6}
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, **options))
    held_out = copies_in(mixed, place, "validation")
    assert len([output for output in mixed.outputs if output.name.startswith("validation")]) > 1
    last = pq.read_table(place / f"text/{mixed.texts[-1].name}.parquet").to_pylist()
    assert sorted(mixed.texts, key=lambda text: text.name)[-1] == mixed.texts[-1]
    assert {(row["corpus"], row["doc_id"]) for row in last} == {
        (label, doc_id) for _, label, doc_id in held_out
    }


def test_part_with_zero_weight_is_empty_and_not_counted(corpora, tmp_path):
    parts = [{"name": "good", "source": "good", "weight": 1}, {"name": "other", "weight": 0}]
    options = {"parts": parts, "budget": {"epochs": 1}, "validation": {"share": 0.2}}
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, **options))
    good, other = mixed.parts
    assert (good.written, good.epochs) == (good.tokens, 1)
    assert (other.written, other.held_out) == (0, 0)
    assert {part for part, _, _ in copies_in(mixed, place, "validation")} == {"good"}


def test_each_copy_has_its_own_number(corpora, tmp_path):
    parts = [{"name": "one", "source": "good", "where": "name = 'empty'", "epochs": 300}]
    mixed, place = mixed_in(mixture_file(tmp_path, corpora[:1], parts=parts, budget=..., repeat={1: 255}))
    assert mixed.parts[0].copies == 76_500
    numbers = pq.read_table(place / "origins/train-00000.parquet").column("copy").to_pylist()
    assert sorted(numbers) == list(range(76_500))


def test_verify_writes_changed_files_again(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora)
    _, place = mixed_in(path)
    expected = all_files(place)
    data = place / "megatron/train-00000.bin"
    data.chmod(0o644)
    content = bytearray(data.read_bytes())
    content[1000:1004] = b"XXXX"
    data.write_bytes(content)
    (place / "megatron/sequences.json").unlink()
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert data.read_bytes() == content  # without verify, the content is not read
    assert (place / "megatron/sequences.json").exists()
    mix_all(inputs_of(load_mixture(str(path))), run_here, verify=True)
    assert all_files(place) == expected


def test_source_columns_named_like_cluster_columns_are_ignored(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=10)
    odd = [
        {"name": f"odd{i}", "text": prose(f"odd {i}"), "cluster_id_of_theirs": "x", "cluster_sizes": [1]}
        for i in range(3)
    ]
    write_rows(tmp_path / "corpus/in/other-7.jsonl", odd)
    build_here(corpus.load())
    options = {"repeat": {1: 9}, "validation": {"share": 0.01}, "budget": {"tokens": 5000}}
    mixed, _ = mixed_in(mixture_file(tmp_path, [corpus], **options))
    assert sum(part.documents + part.held_out for part in mixed.parts) == len(documents([corpus]))


def test_mixture_in_the_folder_of_a_corpus_raises(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=5)
    path = mixture_file(tmp_path, [corpus], storage=corpus.recipe["storage"], name="small")
    before = all_files(tmp_path / "corpus/out")
    with pytest.raises(BadRecipe, match="a corpus is stored there; choose another name"):
        mixed_in(path)
    assert all_files(tmp_path / "corpus/out") == before


@pytest.mark.parametrize("ending", [".bin", ".ds", ".npy"])
def test_file_shorter_than_its_tokens_raises_before_publishing(corpora, tmp_path, monkeypatch, ending):
    """The sizes of the files are compared with the number of written tokens."""
    close = formats.Megatron.close

    def forgetful(self):
        close(self)
        for file in self.index.parent.parent.glob(f"*/*{ending}"):
            file.write_bytes(file.read_bytes()[:-2])

    monkeypatch.setattr(formats.Megatron, "close", forgetful)
    with pytest.raises(NotConserved, match=r"bytes, but [0-9,]+ tokens were written"):
        mixed_in(mixture_file(tmp_path, corpora, formats=["olmo", "datatrove", "megatron"]))
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()


def test_page_of_a_failed_mixture_shows_the_reason(corpora, tmp_path, server, monkeypatch):
    def broken(inputs, spread):
        spread([], "tokens")
        raise Denied("the disk is full")

    monkeypatch.setattr(flow_module, "mix_all", broken)
    path = str(mixture_file(tmp_path, corpora, name="failing"))
    with pytest.raises(Denied):
        flow_module.mix.with_options(task_runner=ThreadPoolTaskRunner())(path)
    with get_client(sync_client=True) as client:
        (page,) = [
            artifact.data
            for artifact in client.read_artifacts(limit=200)
            if (artifact.key or "").startswith("failing-mix-")
        ]
    assert page.startswith("# failing: failed")
    assert "the disk is full" in page
    assert "| tokens | " in page

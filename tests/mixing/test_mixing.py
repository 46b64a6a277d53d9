"""Test mixtures: each token belongs to its document, and the amounts equal the settings."""

import gzip
import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_corpus import TOKENIZER, build_here, edited, prose, rows, write_rows
from small_mixtures import (
    END,
    FORMATS,
    copies_in,
    corpus_of,
    documents,
    megatron,
    mixed_in,
    mixing_of,
    mixture_file,
    origins,
)
from tokenizers import Tokenizer

from zyda_flows.flows.command.mixture_plan import plan_as_json
from zyda_flows.tasks.errors import BadRecipe


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


def test_plan_as_json_has_the_amounts_of_the_mixture(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, validation={"share": 0.2}, repeat={1: 1, 2: 2, 3: 1})
    plan = json.loads(plan_as_json(mixing_of(path)))
    mixed, place = mixed_in(path)
    assert (plan["version"], plan["width"], plan["left_out"]) == (place.name, 2, mixed.left_out)
    assert plan["files"] == {"train": 1, "validation": 1}
    for planned, part in zip(plan["parts"], mixed.parts, strict=True):
        assert planned.items() >= part.model_dump(exclude={"copies", "weight"}).items()
        assert planned["unused"] == part.tokens + part.repeated - part.written
    assert sum(part.repeated for part in mixed.parts)
    assert sum(planned["without_copies"] for planned in plan["parts"])
    assert plan["notes"]


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

"""The way back: from a token, a sequence or a trainer's sample to the document that is there."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_corpus import build_here, prose, rows, write_rows
from small_mixtures import corpus_of, documents, megatron, mixed_in, mixture_file
from typer.testing import CliRunner

from zyda_flows.flows.command.cli import app
from zyda_flows.tasks.errors import BadInput, BadRecipe, Denied
from zyda_flows.tasks.mixing.steps import Samples
from zyda_flows.tasks.mixing.tracing import Trace


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, compiled):
    folder = tmp_path_factory.mktemp("corpora")
    return [corpus_of(folder / "a", "small", documents=30), corpus_of(folder / "b", "second", documents=20)]


@pytest.fixture(scope="module", params=[None, 100], ids=["plain", "packed"])
def traced(request, corpora, tmp_path_factory):
    """Give a mixture of several files with its trace, and the document of each of its tokens."""
    folder = tmp_path_factory.mktemp("traced")
    mixed, place = mixed_in(mixture_file(folder, corpora, packed=request.param or ..., file_gib=1e-5))
    return mixed, place, Trace.at(str(place.parent))


def test_every_token_leads_to_a_document_that_has_it(traced, corpora):
    mixed, place, trace = traced
    known, at = documents(corpora), 0
    for output in mixed.outputs:
        flat = np.concatenate(megatron(place, output.name))
        for token in range(0, output.tokens, 997):
            found, start = trace.output(None, at + token)
            assert (found.name, start) == (output.name, token)
            piece = next(trace.pieces(found, start, start + 1), None)
            if piece is None:
                assert flat[token] == 0  # what fills a sequence
                continue
            assert piece.start <= token < piece.start + piece.tokens
            row = known[piece.corpus, piece.doc_id]
            assert piece.source == row["source"] == piece.part
            whole = trace.with_text(piece)
            assert whole.text == row["text"]
            inputs = next(one.folder for one in corpora if one.recipe["name"] == piece.corpus) / "in"
            lines = (inputs / whole.file).read_text().splitlines()
            assert json.loads(lines[whole.row])["name"] == row["name"]
        at += output.tokens
    for position in (at, -1):
        with pytest.raises(BadInput, match="there are the tokens 0 to"):
            trace.output(None, position)


def test_ranges_and_sequences_are_made_of_what_their_tokens_are(traced):
    mixed, place, trace = traced
    output = mixed.outputs[1]
    each = [next(trace.pieces(output, token, token + 1), None) for token in range(500, 900)]
    sums = trace.composition(output, 500, 900)
    for source in ("good", "other"):
        tokens = sum(1 for piece in each if piece and piece.source == source)
        assert sums.get((source, source), (0, 0))[1] == tokens
    sequences, start = megatron(place, output.name), 0
    before = mixed.outputs[0].sequences
    for number, sequence in enumerate(sequences):
        assert trace.by_sequence(output.name, number) == (output, start, start + len(sequence))
        assert trace.by_sequence(None, before + number) == (output, start, start + len(sequence))
        start += len(sequence)
    with pytest.raises(BadInput, match="there are the sequences 0 to"):
        trace.by_sequence(output.name, len(sequences))


def write_index_files(folder, prefixes, blend=None):
    """Write what Megatron leaves in its cache, of samples of ten tokens; return each one's tokens."""
    descriptions, samples = [], []
    for number, (path, sequences) in enumerate(prefixes):
        chance = np.random.default_rng(number)
        order = chance.permutation(len(sequences)).astype(np.int32)
        flat, places = [], []
        for place, document in enumerate(order.tolist()):
            flat += sequences[document].tolist()
            places += [(place, offset) for offset in range(len(sequences[document]))]
        count = (len(flat) - 1) // 10
        shuffle = chance.permutation(count).astype(np.uint32)
        description = {"class": "GPTDataset", "dataset_path": path, "num_samples": count, "number": number}
        base = folder / f"{number:032x}-GPTDataset-train"
        (folder / f"{base.name}-description.txt").write_text(json.dumps(description))
        np.save(f"{base}-document_index.npy", order)
        np.save(f"{base}-sample_index.npy", np.array([places[10 * i] for i in range(count + 1)], np.int32))
        np.save(f"{base}-shuffle_index.npy", shuffle)
        descriptions.append(description)
        samples.append([flat[10 * i : 10 * i + 11] for i in shuffle.tolist()])
    if blend is None:
        return samples[0]
    base = folder / f"{99:032x}-BlendedDataset-train"
    (folder / f"{base.name}-description.txt").write_text(
        json.dumps({"class": "BlendedDataset", "datasets": descriptions})
    )
    np.save(f"{base}-dataset_index.npy", np.array([prefix for prefix, _ in blend], np.int16))
    np.save(f"{base}-dataset_sample_index.npy", np.array([sample for _, sample in blend], np.int64))
    return [samples[prefix][sample] for prefix, sample in blend]


@pytest.mark.parametrize("is_blend", [False, True])
def test_samples_of_a_trainer_are_found_by_its_index_files(traced, tmp_path, is_blend):
    mixed, place, trace = traced
    names = [output.name for output in mixed.outputs if output.name.startswith("train")][
        : 2 if is_blend else 1
    ]
    prefixes = [(f"/elsewhere/{place.name}/megatron/{name}", megatron(place, name)) for name in names]
    blend = [(i % 2, i // 2) for i in range(200)] if is_blend else None
    expected = write_index_files(tmp_path, prefixes, blend)
    flat = {name: np.concatenate(sequences) for name, (_, sequences) in zip(names, prefixes, strict=True)}
    samples = Samples(str(tmp_path))
    assert len(samples) == len(expected)
    for number in range(0, len(samples), 7):
        found = [flat[output.name][start:end] for output, start, end in trace.sample_pieces(samples, number)]
        assert np.concatenate(found).tolist() == expected[number]
    with pytest.raises(BadInput, match="there are the samples 0 to"):
        list(samples.pieces(len(expected)))


def sampled(trace, folder):
    """Trace the first sample of the index files in a folder."""
    return list(trace.sample_pieces(Samples(str(folder)), 0))


def test_index_files_of_another_mixture_or_version_are_refused(traced, corpora, tmp_path):
    """They name a file of the same name, whatever the folder above it: by version, by content or by copies."""
    mixed, place, trace = traced
    packed = mixed.mixture.get("packed")
    other, its_place = mixed_in(mixture_file(tmp_path, corpora, packed=packed or ..., file_gib=1e-5, seed=7))
    assert {one.name for one in other.outputs} & {one.name for one in mixed.outputs}
    ours, theirs = megatron(place, "train-00000"), megatron(its_place, "train-00000")

    def index(name, path, sequences):
        (tmp_path / name).mkdir()
        write_index_files(tmp_path / name, [(str(path), sequences)])
        return tmp_path / name

    right = index("a", place / "megatron/train-00000", ours)
    assert sampled(trace, right)
    with pytest.raises(Denied, match=f"version {its_place.name}.*and this is version {place.name}"):
        sampled(trace, index("b", its_place / "megatron/train-00000", theirs))
    refused = typed("trace", place, 0, "--by", "step", "--cache", tmp_path / "b", "--batch", 2)
    assert isinstance(refused.exception, Denied)
    stale = index("c", place / "megatron/train-00000", theirs[:-1])  # made before the file was replaced
    with pytest.raises(Denied, match="these index files are not of this mixture"):
        sampled(trace, stale)
    with pytest.raises(Denied, match=r"not of this mixture|names no version"):
        sampled(trace, index("d", "/nowhere/train-00000", theirs))
    copies = tmp_path / "copies"
    shutil.copytree(place / "megatron", copies)
    moved = index("e", copies / "train-00000", ours)
    assert sampled(trace, moved)
    shutil.copy(its_place / "megatron/train-00000.bin", copies / "train-00000.bin")
    shutil.copy(its_place / "megatron/train-00000.idx", copies / "train-00000.idx")
    with pytest.raises(Denied, match="is no copy of train-00000 of this mixture"):
        sampled(Trace.at(str(place)), moved)


def test_origins_of_another_version_are_refused(traced, tmp_path):
    _, place, _ = traced
    copied = tmp_path / place.name
    shutil.copytree(place, copied)
    origins = copied / "origins/train-00000.parquet"
    origins.chmod(0o644)
    origins.write_bytes((place / "origins/train-00001.parquet").read_bytes())
    with pytest.raises(Denied, match="is missing, or has another size than was written"):
        list(Trace.at(str(copied)).pieces(Trace.at(str(copied)).outputs[0], 0, 9))


def test_index_files_that_are_not_there_or_not_whole_are_one_line(traced, tmp_path):
    mixed, place, trace = traced
    with pytest.raises(Denied, match="no index files of train are there"):
        Samples(str(tmp_path))
    write_index_files(tmp_path, [(f"/x/{place.name}/megatron/other", megatron(place, mixed.outputs[0].name))])
    with pytest.raises(Denied, match="which is no file of this mixture"):
        list(trace.sample_pieces(Samples(str(tmp_path)), 0))
    shuffle = next(tmp_path.glob("*shuffle_index.npy"))
    shuffle.write_bytes(shuffle.read_bytes()[:40])
    with pytest.raises(Denied, match="it cannot be read"):
        list(Samples(str(tmp_path)).pieces(0))
    description = tmp_path / "b-GPTDataset-train-description.txt"
    for content in ("{}", "[]", "nothing", '{"class": "BlendedDataset"}'):
        description.write_text(content)
        with pytest.raises(Denied, match="it is not what Megatron writes"):
            Samples(str(tmp_path))
    description.write_text('{"dataset_path": "/x/other"}')
    with pytest.raises(Denied, match="index files of several runs are there"):
        Samples(str(tmp_path))


def typed(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_commands_mix_and_trace(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, validation={"share": 0.1}, packed=50)
    said = typed("mix", path, "--plan").output
    assert "tokens to train on" in said
    assert "held out: " in said
    assert "of near-duplicates in another corpus, " in said
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()
    said = typed("mix", path).output
    assert "--data-path " in said
    assert "padded: " in said
    mix = tmp_path / "mixed/mixture"
    said = typed("trace", mix, 5).output
    assert "document " in said
    assert "part " in said
    assert re.search(r"file (good|other)-[0-2]\.jsonl of in/\1-\*\.jsonl, row [0-9]+\n", said)
    assert f"{next(mix.glob('*/mixture.json')).parent}, file train-00000: sequence 0, " in said
    assert re.search(r"token [0-9,]+ of it\n", said)
    said = typed("trace", mix, 0, "--to", 500, "--sources").output
    assert "good" in said
    assert "other" in said
    said = typed("trace", mix, 0, "--by", "sequence", "--to", 3).output
    assert said.count("train-00000") >= 3
    for wrong in (["--by", "word"], ["--by", "step"], ["--to", 0], ["--file", "no"]):
        assert isinstance(typed("trace", mix, 0, *wrong).exception, BadInput)
    wrong = typed("trace", mix, 0, "--by", "sequence", "--file", "no").exception
    assert str(wrong) == "--file no: this mixture has the files train-00000, validation-00000"
    for named in (
        path,
        mix / "mixture.json",
        next(mix.glob("*/mixture.json")),
        next(mix.glob("*/mixture.json")).parent,
    ):
        assert typed("trace", named, 5).output == typed("trace", mix, 5).output
    assert isinstance(typed("trace", path.parent / "none.yaml", 5).exception, BadRecipe)
    for no_mixture in (Path(__file__), Path(__file__) / "mixture.json", tmp_path / "none"):
        assert isinstance(typed("trace", no_mixture, 5).exception, Denied)
    assert isinstance(typed("trace", tmp_path, 0).exception, Denied)


def test_trace_says_where_a_corpus_is_another_by_now(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=10)
    _, place = mixed_in(mixture_file(tmp_path, [corpus], budget={"tokens": 3000}))
    write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
    build_here(corpus.load())
    said = typed("trace", place, 5).output
    assert "published anew since it was mixed" in said
    assert "document " in said
    shutil.rmtree(tmp_path / "corpus/out")
    assert "document " in typed("trace", place, 5).output

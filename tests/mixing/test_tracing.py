"""Test tracing: from a token, a sequence or a trainer's sample to its document."""

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
from zyda_flows.tasks.mixing.tracing import MixtureTracer


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, compiled):
    folder = tmp_path_factory.mktemp("corpora")
    return [corpus_of(folder / "a", "small", documents=30), corpus_of(folder / "b", "second", documents=20)]


@pytest.fixture(scope="module", params=[None, 100], ids=["plain", "packed"])
def traced(request, corpora, tmp_path_factory):
    """Return a mixture of several files, its folder and its tracer."""
    folder = tmp_path_factory.mktemp("traced")
    mixed, place = mixed_in(mixture_file(folder, corpora, packed=request.param or ..., file_gib=1e-5))
    return mixed, place, MixtureTracer.at(str(place.parent))


def test_every_token_is_traced_to_a_document_that_contains_it(traced, corpora):
    mixed, place, tracer = traced
    rows_by_document, first_token = documents(corpora), 0
    for output in mixed.outputs:
        flat = np.concatenate(megatron(place, output.name))
        for token in range(0, output.tokens, 997):
            traced_output, start = tracer.output(None, first_token + token)
            assert (traced_output.name, start) == (output.name, token)
            piece = next(tracer.pieces(traced_output, start, start + 1), None)
            if piece is None:
                assert flat[token] == 0  # padding
                continue
            assert piece.start <= token < piece.start + piece.tokens
            row = rows_by_document[piece.corpus, piece.doc_id]
            assert piece.source == row["source"] == piece.part
            traced_piece = tracer.with_text(piece)
            assert traced_piece.text == row["text"]
            inputs = next(corpus.folder for corpus in corpora if corpus.recipe["name"] == piece.corpus) / "in"
            lines = (inputs / traced_piece.file).read_text().splitlines()
            assert json.loads(lines[traced_piece.row])["name"] == row["name"]
        first_token += output.tokens
    for position in (first_token, -1):
        with pytest.raises(BadInput, match="there are the tokens 0 to"):
            tracer.output(None, position)


def test_counts_of_ranges_equal_the_counts_of_their_tokens(traced):
    mixed, place, tracer = traced
    output = mixed.outputs[1]
    pieces = [next(tracer.pieces(output, token, token + 1), None) for token in range(500, 900)]
    sums = tracer.composition(output, 500, 900)
    for source in ("good", "other"):
        tokens = sum(1 for piece in pieces if piece and piece.source == source)
        assert sums.get((source, source), (0, 0))[1] == tokens
    sequences, start = megatron(place, output.name), 0
    before = mixed.outputs[0].sequences
    for number, sequence in enumerate(sequences):
        assert tracer.by_sequence(output.name, number) == (output, start, start + len(sequence))
        assert tracer.by_sequence(None, before + number) == (output, start, start + len(sequence))
        start += len(sequence)
    with pytest.raises(BadInput, match="there are the sequences 0 to"):
        tracer.by_sequence(output.name, len(sequences))


def write_index_files(folder, prefixes, blend=None):
    """Write Megatron's cached index files for samples of ten tokens; return the tokens of each sample."""
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
def test_samples_of_a_trainer_are_traced_by_its_index_files(traced, tmp_path, is_blend):
    mixed, place, tracer = traced
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
        parts = [flat[output.name][start:end] for output, start, end in tracer.sample_pieces(samples, number)]
        assert np.concatenate(parts).tolist() == expected[number]
    with pytest.raises(BadInput, match="there are the samples 0 to"):
        list(samples.pieces(len(expected)))


def trace_first_sample(tracer, folder):
    """Trace the first sample of the index files in a folder."""
    return list(tracer.sample_pieces(Samples(str(folder)), 0))


def test_index_files_of_another_mixture_or_version_raise(traced, corpora, tmp_path):
    """The index files name a file with the same name; the version, the content or the copies differ."""
    mixed, place, tracer = traced
    packed = mixed.mixture.get("packed")
    other, other_place = mixed_in(
        mixture_file(tmp_path, corpora, packed=packed or ..., file_gib=1e-5, seed=7)
    )
    assert {output.name for output in other.outputs} & {output.name for output in mixed.outputs}
    own_sequences, other_sequences = megatron(place, "train-00000"), megatron(other_place, "train-00000")

    def index(name, path, sequences):
        (tmp_path / name).mkdir()
        write_index_files(tmp_path / name, [(str(path), sequences)])
        return tmp_path / name

    right = index("a", place / "megatron/train-00000", own_sequences)
    assert trace_first_sample(tracer, right)
    with pytest.raises(Denied, match=f"version {other_place.name}.*and this is version {place.name}"):
        trace_first_sample(tracer, index("b", other_place / "megatron/train-00000", other_sequences))
    refused = run_zyda("trace", place, 0, "--by", "step", "--cache", tmp_path / "b", "--batch", 2)
    assert isinstance(refused.exception, Denied)
    stale = index(
        "c", place / "megatron/train-00000", other_sequences[:-1]
    )  # index files older than the data file
    with pytest.raises(Denied, match="these index files are not of this mixture"):
        trace_first_sample(tracer, stale)
    with pytest.raises(Denied, match=r"not of this mixture|names no version"):
        trace_first_sample(tracer, index("d", "/nowhere/train-00000", other_sequences))
    copies = tmp_path / "copies"
    shutil.copytree(place / "megatron", copies)
    moved = index("e", copies / "train-00000", own_sequences)
    assert trace_first_sample(tracer, moved)
    shutil.copy(other_place / "megatron/train-00000.bin", copies / "train-00000.bin")
    shutil.copy(other_place / "megatron/train-00000.idx", copies / "train-00000.idx")
    with pytest.raises(Denied, match="is no copy of train-00000 of this mixture"):
        trace_first_sample(MixtureTracer.at(str(place)), moved)


def test_origins_of_another_version_raise(traced, tmp_path):
    _, place, _ = traced
    copied = tmp_path / place.name
    shutil.copytree(place, copied)
    origins = copied / "origins/train-00000.parquet"
    origins.chmod(0o644)
    origins.write_bytes((place / "origins/train-00001.parquet").read_bytes())
    with pytest.raises(Denied, match="is missing, or has another size than was written"):
        list(MixtureTracer.at(str(copied)).pieces(MixtureTracer.at(str(copied)).outputs[0], 0, 9))


def test_missing_or_damaged_index_files_raise(traced, tmp_path):
    mixed, place, tracer = traced
    with pytest.raises(Denied, match="no index files of train are there"):
        Samples(str(tmp_path))
    write_index_files(tmp_path, [(f"/x/{place.name}/megatron/other", megatron(place, mixed.outputs[0].name))])
    with pytest.raises(Denied, match="which is no file of this mixture"):
        list(tracer.sample_pieces(Samples(str(tmp_path)), 0))
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


def run_zyda(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_commands_mix_and_trace(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, validation={"share": 0.1}, packed=50)
    output = run_zyda("mix", path, "--plan").output
    assert "tokens to train on" in output
    assert "held out: " in output
    assert "of near-duplicates in another corpus, " in output
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()
    output = run_zyda("mix", path).output
    assert "--data-path " in output
    assert "padded: " in output
    mix = tmp_path / "mixed/mixture"
    output = run_zyda("trace", mix, 5).output
    assert "document " in output
    assert "part " in output
    assert re.search(r"file (good|other)-[0-2]\.jsonl of in/\1-\*\.jsonl, row [0-9]+\n", output)
    assert f"{next(mix.glob('*/mixture.json')).parent}, file train-00000: sequence 0, " in output
    assert re.search(r"token [0-9,]+ of it\n", output)
    output = run_zyda("trace", mix, 0, "--to", 500, "--sources").output
    assert "good" in output
    assert "other" in output
    output = run_zyda("trace", mix, 0, "--by", "sequence", "--to", 3).output
    assert output.count("train-00000") >= 3
    for options in (["--by", "word"], ["--by", "step"], ["--to", 0], ["--file", "no"]):
        assert isinstance(run_zyda("trace", mix, 0, *options).exception, BadInput)
    options = run_zyda("trace", mix, 0, "--by", "sequence", "--file", "no").exception
    assert str(options) == "--file no: this mixture has the files train-00000, validation-00000"
    for argument in (
        path,
        mix / "mixture.json",
        next(mix.glob("*/mixture.json")),
        next(mix.glob("*/mixture.json")).parent,
    ):
        assert run_zyda("trace", argument, 5).output == run_zyda("trace", mix, 5).output
    assert isinstance(run_zyda("trace", path.parent / "none.yaml", 5).exception, BadRecipe)
    for no_mixture in (Path(__file__), Path(__file__) / "mixture.json", tmp_path / "none"):
        assert isinstance(run_zyda("trace", no_mixture, 5).exception, Denied)
    assert isinstance(run_zyda("trace", tmp_path, 0).exception, Denied)


def test_trace_reports_a_corpus_that_was_published_again(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=10)
    _, place = mixed_in(mixture_file(tmp_path, [corpus], budget={"tokens": 3000}))
    write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
    build_here(corpus.load())
    output = run_zyda("trace", place, 5).output
    assert "published anew since it was mixed" in output
    assert "document " in output
    shutil.rmtree(tmp_path / "corpus/out")
    assert "document " in run_zyda("trace", place, 5).output

"""The counts, samples and numbers of rows."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from small_corpus import prose, rows, write_rows
from source_documents import DOCUMENTS, LINE, write_inputs

from zyda_flows.tasks.errors import BadInput, Denied, NotConserved
from zyda_flows.tasks.ingest import file_pieces
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.ingest.numbering import RowConverter
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, arrow_chunk
from zyda_flows.tasks.sources.formats import arrow, jsonl, parquet
from zyda_flows.tasks.sources.input_files import FilePiece, load_listing, sampled_files
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import read
from zyda_flows.tasks.sources.register import load_register
from zyda_flows.tasks.tokens.stored import stored_engine

pytestmark = pytest.mark.early(4)


@pytest.mark.parametrize("sample", [1, 0.3])
def test_rows_are_counted_by_footers_and_line_ends(corpus, monkeypatch, sample):
    write_inputs(corpus.folder / "in")
    lines = b"\n\n" + LINE * 50 + b"\n \n{broken\n" + LINE.strip()
    (corpus.folder / "in/d.jsonl").write_bytes(lines)
    with pa.OSFile(str(corpus.folder / "in/e.arrow"), "wb") as sink:
        table = pa.Table.from_pylist(DOCUMENTS)
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, 7)
    for name in ("a.jsonl", "b.jsonl.gz", "c.parquet", "d.jsonl", "e.arrow"):
        source = {"name": "s", "files": f"in/{name}", "on_bad_rows": "set_aside"}
        recipe = corpus.load(name=name[0], sources=[source], sample=sample)
        (found,) = prepare.fn(recipe)
        with monkeypatch.context() as patch:
            lose_rows(patch)
            with pytest.raises(
                NotConserved, match=rf"source s, file .*{name}: expected \d+ rows, but \d+ were read"
            ):
                ingest(recipe, found)
        done = ingest(recipe, found)
        if sample == 1:
            assert done.entering.documents == (52 if name == "d.jsonl" else 60)
        assert done.entering.documents == done.out.documents + done.set_aside.documents


def lose_rows(patch):
    """Drop all rows of each chunk except the first."""

    def losing(make):
        def made(*given):
            chunk = make(*given)
            return Chunk(chunk.rows[:1], chunk.table.slice(0, 1), chunk.bad, chunk.blank)

        return made

    patch.setattr(jsonl.GatheredLines, "chunk", losing(jsonl.GatheredLines.chunk))
    for module in (arrow, parquet):
        patch.setattr(module, "arrow_chunk", losing(arrow_chunk))


def test_parquet_with_a_changed_footer_raises(corpus):
    path = corpus.folder / "in/best-0.parquet"
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-0.parquet"}])
    (found,) = prepare.fn(recipe)
    (file,) = load_register(recipe.folder).files["best"]
    piece = file.pieces[0].model_copy(update={"rows": 99})
    assert file.pieces == (FilePiece(row_groups=(0,), rows=3),)
    job = file_pieces.PieceToIngest(recipe.folder, "best", 0, found.parameters, (), file, piece, ())
    with pytest.raises(BadInput, match=rf"{path}: it changed while it was read: it had 99 rows"):
        file_pieces.ingest_piece(job)


# Samples and numbers


def test_sample_goes_by_the_path_below_the_pattern(tmp_path):
    for place in ("a", "b"):
        for dump in range(40):
            for file in range(5):
                write_rows(tmp_path / place / f"dump-{dump}/{file:03d}.jsonl", [{"text": "x"}])

    def chosen(place):
        files = sampled_files(list_files(Source(name="s", files=(f"{tmp_path}/{place}/*/*.jsonl",))), 0.2)
        return [file.url.removeprefix(f"{tmp_path}/{place}/") for file in files]

    names = chosen("a")
    assert names == chosen("b")
    assert len(names) == 40
    assert len({name[-9:] for name in names}) == 5
    assert len({name.partition("/")[0] for name in names}) > 20


def test_sampled_rows_differ_between_files_with_the_same_name(tmp_path):
    for i in range(2):
        write_rows(tmp_path / f"{i}/x.jsonl", [{"text": "x"}])
    one, other = list_files(Source(name="s", files=(f"{tmp_path}/*/x.jsonl",)))
    assert one.seed != other.seed


def test_register_with_a_missing_entry_raises_and_no_number_is_reused(corpus):
    recipe = corpus.load()
    for i in range(2, 5):
        prepare.fn(recipe)
        write_rows(corpus.folder / f"in/best-{i}.parquet", rows(**{f"more{i}": prose(f"more {i}")}))
    folder = recipe.folder
    folder.delete("work/register/000001.json")
    with pytest.raises(Denied, match=r"work/register/000001\.json is missing"):
        prepare.fn(recipe)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_rows": 2}, r"source best, file .*: more than 2 rows"),
        ({"max_text": 100}, r"source best, file .*, row \d: a text of [0-9,]+ bytes, expected"),
    ],
)
def test_rows_that_do_not_fit_into_an_id_are_refused(corpus, limits, message):
    recipe = corpus.load()
    plan = prepare.fn(recipe)[0]
    file = load_listing(recipe.folder, plan.listing)[0]
    engine = stored_engine(recipe.folder, plan.parameters.tokenizer, plan.parameters.special_tokens)
    reader = RowConverter("best", file, 0, plan.parameters, engine, **limits)
    aside = SimpleNamespace(add=list)
    with pytest.raises(BadInput, match=message):
        list(reader.documents(read("best", file, file.pieces[0], plan.parameters.text, RowTally()), aside))

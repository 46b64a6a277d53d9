"""CSV, plain text, HTML, Wikipedia's dumps, arXiv's tars, and lists of files."""

import bz2
import gzip
import json
import random
import re
import tarfile

import pyarrow.parquet as pq
import pytest
from eprints import tar_of
from small_corpus import TOKENIZER, build_here, prose
from web_archives import read_file

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.recipe.file_lists import selected
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files


def test_text_and_html_are_a_document_each(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\n\ntwo")
    (tmp_path / "b.md.gz").write_bytes(gzip.compress("# Überschrift".encode()))
    (tmp_path / "c.html").write_bytes('<meta charset="latin1"><p>Grüße'.encode("latin1"))
    texts = [read_file(tmp_path / name)[0][0] for name in ("a.txt", "b.md.gz", "c.html")]
    assert [row["text"] for row in texts] == [
        "one\n\ntwo",
        "# Überschrift",
        '<meta charset="latin1"><p>Grüße',
    ]
    assert [(row["url"], row["file"]) for row in texts] == [
        (None, "a.txt"),
        (None, "b.md.gz"),
        (None, "c.html"),
    ]


def test_text_that_is_no_utf8_is_a_bad_row(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    assert read_file(tmp_path / "a.txt")[1][0].reason.startswith("invalid UTF-8 at byte 3")


HEAD = (
    '<mediawiki xml:lang="en"><siteinfo><base>https://en.example.org/wiki/Main_Page</base><namespaces>'
    '<namespace key="0" case="first-letter" /><namespace key="1" case="first-letter">Talk</namespace>'
    "</namespaces></siteinfo>\n"
)


def article(name, namespace=0, more="", text=None):
    wikitext = f"'''{name}''' is &lt;page&gt; &amp; more." if text is None else text
    return (
        f"  <page><title>{name}</title><ns>{namespace}</ns><id>{len(name)}</id>{more}<revision><id>7</id>"
        f'<timestamp>2024-01-01T00:00:00Z</timestamp><text bytes="9">{wikitext}</text></revision></page>\n'
    )


PAGES = [
    article("First page"), article("Old", more='<redirect title="First page" />'), article("Talk:First page", 1),
    article("Öl (Rohstoff)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "compress"),
    [("dump.xml", bytes), ("dump.xml.bz2", bz2.compress), ("dump.xml-p1p2.bz2", bz2.compress), ("dump.xml.gz", gzip.compress)],
)  # fmt: skip
def test_articles_of_a_dump_are_documents(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress((HEAD + "".join(PAGES) + "</mediawiki>").encode()))
    documents, bad, skipped = read_file(tmp_path / name)
    assert (bad, skipped) == ([], {"redirect": 1, "namespace Talk": 1})
    assert documents == [
        {
            "text": f"'''{name}''' is <page> & more.", "title": name, "url": f"https://en.example.org/wiki/{url}",
            "page_id": len(name), "revision": 7, "timestamp": "2024-01-01T00:00:00Z", "namespace": 0,
        }
        for name, url in (("First page", "First_page"), ("Öl (Rohstoff)", "%C3%96l_(Rohstoff)"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGES[0].replace("</text>", ""), "not a page of a dump: mismatched tag"),
        (PAGES[0].replace("</page>", ""), "a page has no end"),
        (PAGES[0].replace("<page>", "<page><!DOCTYPE x>"), "it declares entities"),
        (
            PAGES[0].replace("<revision>", "<x>").replace("</revision>", "</x>"),
            "not a page of a dump: it has no revision",
        ),
        (PAGES[0].replace("<ns>0", "<ns>zero"), "not a page of a dump: invalid literal"),
        (article("Deep", text="<a>" * 100_000), "not a page of a dump"),
    ],
)
def test_damaged_page_does_not_affect_other_pages(tmp_path, page, message):
    (tmp_path / "dump.xml").write_text(HEAD + PAGES[0] + page + "".join(PAGES[1:]))
    documents, bad, skipped = read_file(tmp_path / "dump.xml")
    assert len(documents) == 2
    assert sum(skipped.values()) == 2
    assert bad[0].reason.startswith(message)


def test_page_beyond_the_limit_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.sources.compression.BLOCK", 4096)
    (tmp_path / "dump.xml").write_text(HEAD + article("Long", text="x" * 50_000) + "".join(PAGES))
    with replaced_limits(dump_page=10_000):
        documents, bad, _ = read_file(tmp_path / "dump.xml")
    assert len(documents) == 2
    assert bad[0].reason == "a page of more than 10,000 bytes"


def test_dump_of_several_streams_goes_on_behind_a_damaged_one(tmp_path):
    streams = [bz2.compress(part.encode()) for part in (HEAD, *(page * 30 for page in PAGES))]
    streams[2] = streams[2][:20] + b"\0\0\0\0" + streams[2][24:]
    (tmp_path / "dump.xml.bz2").write_bytes(b"".join(streams))
    documents, bad, skipped = read_file(tmp_path / "dump.xml.bz2")
    assert (len(documents), skipped) == (60, {"namespace Talk": 30})
    assert [row.is_rest for row in bad] == [False]
    (tmp_path / "dump.xml.bz2").write_bytes(b"".join(streams)[:-30])
    assert read_file(tmp_path / "dump.xml.bz2")[1][-1].is_rest


@pytest.fixture(scope="module")
def blocks_of_pages():
    """Return a dump as a bzip2 stream of about four blocks of 100 kB, and the number of pages in a block."""
    chance = random.Random(5)
    words = [[f"word{chance.randrange(10**6)}" for _ in range(300)] for _ in range(100)]
    pages = [article(f"Page {i}", text=" ".join(page_words)) for i, page_words in enumerate(words)]
    return bz2.compress((HEAD + "".join(pages) + "</mediawiki>").encode(), 1), -(-100_000 // len(pages[0]))


@pytest.mark.parametrize("where", [*(i / 20 for i in range(20)), "mark", "head", "end", "crc"])
def test_flipped_bit_in_a_stream_of_bzip2_ends_the_file_and_changes_no_page(tmp_path, blocks_of_pages, where):
    data, in_block = blocks_of_pages
    places = {"mark": 6, "head": 2, "end": len(data) - 8, "crc": len(data) - 2}
    place = int(where * len(data)) if isinstance(where, float) else places[where]
    all_pages = re.findall(
        "<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", bz2.decompress(data).decode(), re.DOTALL
    )
    (tmp_path / "dump.xml.bz2").write_bytes(bytes([*data[:place], data[place] ^ 16, *data[place + 1 :]]))
    documents, bad, _ = read_file(tmp_path / "dump.xml.bz2")
    pages = [(page["title"], page["text"]) for page in documents]
    assert pages == all_pages[: len(pages)]
    before = 100 * place / len(data) - 2 * in_block
    assert len(pages) >= before
    assert [row.is_rest for row in bad] == [True]
    assert re.fullmatch(
        r"the data are damaged at byte [0-9,]+: .*; zyda fetch copies the dump again.*", bad[0].reason
    )


@pytest.mark.parametrize("where", [i / 12 for i in range(12)])
def test_bytes_that_are_missing_from_a_dump_join_no_pages(tmp_path, blocks_of_pages, where):
    data = blocks_of_pages[0]
    all_pages = re.findall(
        "<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", bz2.decompress(data).decode(), re.DOTALL
    )
    place = int(where * len(data))
    (tmp_path / "dump.xml.bz2").write_bytes(data[:place] + data[place + 3000 :])
    documents, bad, _ = read_file(tmp_path / "dump.xml.bz2")
    assert bad[-1].is_rest
    pages = [(page["title"], page["text"]) for page in documents]
    assert pages == all_pages[: len(pages)]


def test_article_whose_end_is_lost_is_no_part_of_another(tmp_path, blocks_of_pages):
    data = bz2.decompress(blocks_of_pages[0])
    middle = data.index(b"</page>", 50_000) - 300
    parts = [data[:middle], data[middle : middle + 2000], data[middle + 2000 :]]
    first, second, third = (bytearray(bz2.compress(part, 1)) for part in parts)
    second[5] ^= 1  # of the mark of its first block
    (tmp_path / "dump.xml.bz2").write_bytes(first + second + third)
    documents, bad, _ = read_file(tmp_path / "dump.xml.bz2")
    assert [row.is_rest for row in bad] == [False]
    assert max(len(page["text"]) for page in documents) < 5_000
    assert 50 <= len(documents) < 100


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_lost_sector_of_a_dump_loses_only_its_pages(tmp_path, byte):
    streams = [
        bz2.compress("".join(article(f"{k} {i}", text=prose(f"{k} {i}", 300)) for i in range(40)).encode())
        for k in range(4)
    ]
    lost = byte * 4096 + streams[1][4096:]
    (tmp_path / "dump.xml.bz2").write_bytes(
        bz2.compress(HEAD.encode()) + streams[0] + lost + streams[2] + byte * 99 + streams[3]
    )
    documents, bad, _ = read_file(tmp_path / "dump.xml.bz2")
    assert [page["title"][0] for page in documents] == ["0"] * 40 + ["2"] * 40 + ["3"] * 40
    assert bad
    assert not any(row.is_rest for row in bad)


PAPER = {
    "main.tex": rb"\documentclass{article}\begin{document}Main. \input{sections/one} % \input{gone}"
    b"\n" + rb"\include{two}\end{document}",
    "sections/one.tex": b"One.",
    "two.tex": rb"Two. \input{two}",
    "old.tex": rb"\documentclass{article}\begin{document}An old draft that is longer.\end{document}",
    "._main.tex": b"\0\1junk",
    "figure.pdf": b"%PDF-1.4",
}
EPRINTS = {
    "2001/2001.00001.gz": gzip.compress(tar_of(PAPER)),
    "2001/hep-th0001002.gz": gzip.compress(rb"\documentstyle{article}\begin{document}Alone.\end{document}"),
    "2001/2001.00003.pdf": b"%PDF-1.4",
    "2001/2001.00004.gz": gzip.compress(b"%PDF-1.4 alone"),
    "2001/2001.00005v2.gz": gzip.compress("\\documentclass{x}\\begin{document}Fünf.\\end{document}".encode("latin1")),
}  # fmt: skip


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_eprints_are_documents_with_their_inputs_in_place(tmp_path, form):
    (tmp_path / "arXiv_src_2001_001.tar").write_bytes(tar_of(EPRINTS, format=form))
    documents, bad, skipped = read_file(tmp_path / "arXiv_src_2001_001.tar")
    assert (bad, skipped) == ([], {"PDF": 2})
    assert [(row["arxiv_id"], row["version"], row["main_file"]) for row in documents] == [
        ("2001.00001", None, "main.tex"), ("hep-th/0001002", None, "hep-th0001002.tex"),
        ("2001.00005", 2, "2001.00005v2.tex"),
    ]  # fmt: skip
    assert documents[0]["url"] == "https://arxiv.org/abs/2001.00001"
    assert documents[0]["text"].replace(" ", "") == (
        r"\documentclass{article}\begin{document}Main.One.%" + "\n" + r"Two.\end{document}"
    )
    assert "Fünf" in documents[2]["text"]


def test_eprint_by_itself_is_a_file_of_its_own(tmp_path):
    (tmp_path / "2001.00001.gz").write_bytes(EPRINTS["2001/2001.00001.gz"])
    documents, *_ = read_file(tmp_path / "2001.00001.gz", format="arxiv")
    assert documents[0]["arxiv_id"] == "2001.00001"


def test_damaged_tars_lose_nothing_silently(tmp_path):
    whole = bytearray(tar_of(EPRINTS))
    second = whole.index(b"2001/hep-th")
    changed = whole.copy()
    changed[second : second + 4] = b"\xff\xff\xff\xff"
    path = tmp_path / "x.tar"
    path.write_bytes(changed)
    documents, bad, _ = read_file(path)
    assert [row["arxiv_id"] for row in documents] == ["2001.00001", "2001.00005"]
    assert "a head is damaged" in bad[0].reason
    path.write_bytes(whole[: second + 600])
    assert read_file(path)[1][-1].is_rest
    inside = dict(EPRINTS)
    inside["2001/2001.00001.gz"] = inside["2001/2001.00001.gz"][:-20]
    path.write_bytes(tar_of(inside))
    documents, bad, _ = read_file(path)
    assert len(documents) == 2
    assert bad[0].reason.startswith("2001/2001.00001.gz: its data are damaged")
    chosen = random.Random(1)
    for _ in range(100):
        changed = whole.copy()
        for _ in range(3):
            changed[chosen.randrange(len(changed))] = chosen.randrange(256)
        path.write_bytes(changed)
        read_file(path)


def test_eprint_whose_inputs_have_no_end_is_a_bad_row(tmp_path):
    files = {f"f{i}.tex": b"\\input{f%d}\\input{f%d}" % (i + 1, i + 1) for i in range(15)}
    files["main.tex"] = rb"\documentclass{x}\begin{document}\input{f0}\end{document}"
    (tmp_path / "x.tar").write_bytes(tar_of({"2001.00009.gz": gzip.compress(tar_of(files))}))
    assert "at most 1,000 inputs" in read_file(tmp_path / "x.tar")[1][0].reason


def test_real_dump_and_eprints_are_read(shared):
    documents, bad, skipped = read_file(next((shared / "web/wiki").glob("*.bz2")))
    assert (len(documents), bad, skipped) == (106, [], {"redirect": 100})
    for path, main in (("1911.02782.gz", "main.tex"), ("2004.14974.gz", "emnlp2020.tex")):
        documents, *_ = read_file(shared / "web/arxiv" / path, format="arxiv")
        assert documents[0]["main_file"] == main


def test_list_names_the_files_of_a_source(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"data/{name}.jsonl").parent.mkdir(exist_ok=True)
        (tmp_path / f"data/{name}.jsonl").write_text(json.dumps({"text": prose(name)}))
    (tmp_path / "paths.gz").write_bytes(gzip.compress(b"data/a.jsonl\n\ndata/c.jsonl\n"))
    (tmp_path / "recipe.yaml").write_text(
        f"name: listed\nstorage: out\ntokenizer: {TOKENIZER}\nsources: [{{name: s, files_from: paths.gz}}]\n"
    )
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    assert build_here(recipe).of("ingest").documents == 2
    urls = pq.read_table(tmp_path / "out/listed/published/sources.parquet").column("file").to_pylist()
    assert urls == ["a.jsonl", "c.jsonl"]


def files_of_list(folder, lines, **fields):
    (folder / "list.txt").write_text("\n".join(lines))
    found = list_files(Source(name="s", files_from={"url": str(folder / "list.txt"), **fields}))
    return [file.name for file in found]


def test_select_chooses_files_of_a_list_and_more_of_it_has_all_of_less(tmp_path):
    names = [f"part-{i:03d}.txt" for i in range(40)]
    for name in names:
        (tmp_path / name).write_text(name)
    assert files_of_list(tmp_path, names) == names
    few, more = ({*files_of_list(tmp_path, names, select=n)} for n in (5, 0.5))
    assert (len(few), len(more)) == (5, 20)
    assert few < more
    assert files_of_list(tmp_path, names, select="*-00?.txt") == names[:10]
    assert selected(names, 1000) == names


def test_list_may_have_notes_and_names_a_file_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    lines = ["\ufeff# of today", "b", "", "  # and of others", "a ", "b\r"]
    assert files_of_list(tmp_path, lines) == ["a", "b"]


@pytest.mark.parametrize(
    ("lines", "fields", "message"),
    [
        (["gone.txt"], {}, "gone.txt is missing; it is in the list"),
        (["a.txt"], {"select": "*.bin"}, r"names 1 files, of which `select: \*\.bin` chooses none"),
        ([], {}, "names 0 files"),
    ],
)
def test_list_with_missing_files_raises(tmp_path, lines, fields, message):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(BadInput, match=message):
        files_of_list(tmp_path, lines, **fields)


def test_file_that_is_not_a_list_raises(tmp_path):
    (tmp_path / "list.gz").write_bytes(gzip.compress(b"a.txt\n" * 100)[:-9])
    with pytest.raises(BadInput, match=r"list\.gz: no list of files: it ends in the middle"):
        list_files(Source(name="s", files_from=str(tmp_path / "list.gz")))
    with pytest.raises(BadInput, match="there is no list of files at"):
        list_files(Source(name="s", files_from=str(tmp_path / "gone.gz")))


@pytest.mark.parametrize("name", ["CC-MAIN-2024-1", "2024-10", "CC-MAIN-2024-10/", "cc-main-2024-10", ""])
def test_snapshot_has_a_name_of_common_crawl(name):
    with pytest.raises(ValueError, match="expected the name of a snapshot, for example CC-MAIN-2024-10"):
        Source(name="s", commoncrawl={"snapshot": name})


def test_snapshot_of_common_crawl_is_its_list():
    (one,) = Source(name="s", commoncrawl={"snapshot": "CC-MAIN-2024-10", "kind": "wet", "select": 3}).lists
    assert one.url == "https://data.commoncrawl.org/crawl-data/CC-MAIN-2024-10/wet.paths.gz"
    assert (one.prefix, one.select) == ("https://data.commoncrawl.org/", 3)


def test_file_that_is_read_as_another_format_is_another_file(tmp_path):
    (tmp_path / "a.txt").write_text("text,n\none,1\ntwo,2\n")
    recipe = tmp_path / "recipe.yaml"
    head = f"name: read\nstorage: out\ntokenizer: {TOKENIZER}\n"
    counts = []
    for form in ("", ", format: csv", ""):
        recipe.write_text(f"{head}sources: [{{name: s, files: a.txt{form}}}]\n")
        counts.append(build_here(load_recipe(str(recipe)), replace=True).of("ingest").documents)
    assert counts == [1, 2, 1]

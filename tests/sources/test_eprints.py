"""E-prints of arXiv: main file, encoding, kinds without LaTeX, and bounds."""

import gzip
import tarfile

import pytest
from bombs import run_bounded
from eprints import tar_of
from web_archives import read_file

from zyda_flows.tasks.extraction.eprints import latex_of
from zyda_flows.tasks.extraction.inputenc import text_of
from zyda_flows.tasks.limits import replaced_limits

LATEX = rb"\documentclass{article}\begin{document}%s\end{document}"


def paper(words, preamble=b""):
    return b"\\documentclass{article}" + preamble + b"\\begin{document}" + words + b"\\end{document}"


def read_eprints(tmp_path, *contents, **fields):
    """Read a tar of e-prints, each a file or the files of a tar."""
    files = {}
    for number, content in enumerate(contents):
        content = tar_of(content) if isinstance(content, dict) else content
        files[f"2001/2001.{number:05}.gz"] = gzip.compress(content)
    (tmp_path / "arXiv_src_2001_001.tar").write_bytes(tar_of(files))
    return read_file(tmp_path / "arXiv_src_2001_001.tar", **fields)


OLD, REAL = paper(b"Old draft. " * 50), paper(b"The real paper.")


@pytest.mark.parametrize(
    ("files", "main"),
    [
        ({"00README.XXX": b"real.tex toplevelfile\nold.tex ignore\n", "old.tex": OLD, "real.tex": REAL}, "real.tex"),
        ({"00README.XXX": b"old.tex ignore\r\n", "old.tex": OLD, "real.tex": REAL}, "real.tex"),
        ({"00README.json": b'{"sources": [{"filename": "old.tex", "usage": "ignore"}, '
          b'{"usage": "toplevel", "filename": "real.tex"}]}', "old.tex": OLD, "real.tex": REAL}, "real.tex"),
        ({"00README.yaml": b"sources:\n- filename: real.tex\n  usage: toplevel\n", "old.tex": OLD, "real.tex": REAL},
         "real.tex"),
        ({"00README.json": b"[" * 100_000, "real.tex": REAL}, "real.tex"),
        ({"00README.json": b'{"sources": 3}', "real.tex": REAL}, "real.tex"),
        ({"00README.XXX": b"gone.tex toplevelfile\n", "real.tex": REAL}, "real.tex"),
        ({"old/main.tex": OLD, "main.tex": REAL}, "main.tex"),
        ({"old/main.tex": OLD, "paper_v2.tex": REAL}, "paper_v2.tex"),
        ({"src/main.tex": REAL, "src/old/main.tex": OLD}, "src/main.tex"),
        ({"supplement.tex": OLD, "letters.tex": REAL, "letters.bbl": b"x"}, "letters.tex"),
        ({"fig.tex": b"\\documentclass[tikz]{standalone}\\begin{document}" + b"a" * 999 + b"\\end{document}",
          "z.tex": REAL}, "z.tex"),
        ({"long.tex": b"%auto-ignore\n" + OLD, "z.tex": REAL}, "z.tex"),
        ({"paper": REAL, "notes.txt": b"words"}, "paper"),
    ],
)  # fmt: skip
def test_main_file_is_the_paper(files, main):
    latex, name = latex_of(files)
    assert name == main
    assert "The real paper." in latex


RUSSIAN = "Привет, мир: ёжик"


@pytest.mark.parametrize(
    ("option", "codec", "text"),
    [
        ("koi8-r", "koi8-r", RUSSIAN), ("cp1251", "cp1251", RUSSIAN), ("cp866", "cp866", RUSSIAN),
        ("iso88595", "iso8859-5", RUSSIAN), ("maccyr", "mac-cyrillic", RUSSIAN), ("koi8-u", "koi8-u", "Їжак є"),
        ("latin1", "latin-1", "Fünf çà"), ("latin2", "iso8859-2", "Łódź"), ("latin5", "iso8859-9", "Şişli"),
        ("latin9", "iso8859-15", "5 €, Œuvre"), ("ansinew", "cp1252", "“5 €”"), ("applemac", "mac-roman", "Fünf"),
        ("cp850", "cp850", "Fünf"), ("cp1250", "cp1250", "Łódź"), ("macce", "mac-latin2", "Łódź"),
        ("utf8", "utf-8", "Łódź"), ("utf8x", "utf-8", RUSSIAN), ("utf8", "latin-1", "Fünf"),
        ("latin1", "utf-8", "Łódź"), ("unknown", "latin-1", "Fünf"), ("T2A,cp1251", "cp1251", RUSSIAN),
        ("rot13", "latin-1", "Fünf"), ("iso-8859-7", "iso8859-7", "λόγος"),
        ("8859-8", "iso8859-8", "שלום"), ("latin10", "iso8859-16", "ștefan"), ("latin3", "iso8859-3", "ĉu"), ("cp437", "cp437", "é"),
    ],
)  # fmt: skip
def test_files_are_in_the_encoding_that_inputenc_declares(option, codec, text):
    files = {
        "main.tex": paper(b"\\input{b}", f"\\usepackage[{option}]{{inputenc}}%\\usepackage[cp437]{{inputenc}}\n".encode()),
        "b.tex": text.encode(codec),
    }  # fmt: skip
    assert text in latex_of(files)[0]


def test_encodings_change_within_a_file():
    parts = [
        b"\\inputencoding{koi8-r}",
        RUSSIAN.encode("koi8-r"),
        b"\\inputencoding{latin1}",
        "Fünf".encode("latin-1"),
    ]
    parts += [b"\\begin{CJK*}{GBK}{song}", "汉字".encode("gbk"), b"\\end{CJK*}", "é".encode("latin-1")]
    parts += [b"\\begin{CJK}{Bg5}{a}", "漢字".encode("big5"), b"\\end{CJK}"]
    text = text_of(b" ".join(parts))
    assert all(word in text for word in (RUSSIAN, "Fünf", "汉字", "é", "漢字"))
    assert text_of(("Łódź " * 9).encode() + b"\xff") == "Łódź " * 9 + "\xff"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.4 \\alone", "PDF"), (b"\n%PDF-1.4", "PDF"), (b"%!PS-Adobe-3.0\n/a {\\alone} def", "PostScript"),
        (b"\x04%!PS\n(\\050)", "PostScript"), (b"%!\n\\(", "PostScript"), (b"\xc5\xd0\xd3\xc6\\a", "PostScript"),
        (b"<!DOCTYPE html><p>\\a", "HTML"), (b"\xef\xbb\xbf \n<html><body>\\a", "HTML"),
        (b"<?xml version='1.0'?><!-- a --><html>\\a", "HTML"), (b"PK\3\4[Content_Types].xml word/ \\", "docx"),
        (b"{\\rtf1 a}", "RTF"), (b"\xf7\x02\\a", "DVI"), (b"\x89PNG\\a", "other file"), (b"", "withdrawn"),
        (b"%auto-ignore\nThis paper has been withdrawn.", "withdrawn"),
        (b"This paper has been withdrawn by the author.", "withdrawn"),
        (b"\\input harvmac\n\\Title{a}{b}\\bye", "plain TeX"), (b"\\magnification=1200 Words.\\vfill\\end", "plain TeX"),
        (b"\\input amstex\\documentstyle{amsppt}\\document a\\enddocument", "plain TeX"), (b"words", "no LaTeX"),
        ({"paper.ps": b"%!PS-Adobe", "readme": b"words"}, "PostScript"), ({"a.pdf": b"%PDF-1.5"}, "PDF"),
        ({"main.tex": b"%PDF-1.5 \\begin{document}"}, "PDF"), ({"a.tex": b"\\bye"}, "plain TeX"), ({}, "withdrawn"),
        ({"withdrawn.tex": b"%auto-ignore\nwithdrawn"}, "withdrawn"), ({"a.docx": b"PK\3\4 word/"}, "docx"),
        (gzip.compress(b"\\begin{document}"), "other file"),
    ],
)  # fmt: skip
def test_eprints_without_latex_are_counted_by_kind(tmp_path, content, kind):
    documents, bad, skipped = read_eprints(tmp_path, content, paper(b"a"))
    assert (len(documents), bad, skipped) == (1, [], {kind: 1})


@pytest.mark.parametrize(
    "content",
    [
        b"%!TEX program = pdflatex\n" + REAL, b"%&latex\n" + REAL, b"% a comment\n" + REAL, b"\\section{The real paper.}",
        {"a.tex": REAL, "fig.ps": b"%!PS"}, b"\\documentstyle[12pt]{article}\\begin{document}The real paper.\\end{document}",
    ],
)  # fmt: skip
def test_latex_is_no_other_kind(tmp_path, content):
    documents, bad, skipped = read_eprints(tmp_path, content)
    assert (bad, skipped) == ([], {})
    assert "The real paper." in documents[0]["text"]


INPUTS = {
    "main.tex": paper(
        b"\\input a \\input{b}\\include{c}\\import{d/}{e}\\subimport{d}{f}\\subfile{g}\\input{./h.tex}\\input{\"i\"}"
        b"\\InputIfFileExists{j}{}{}"
    ),
    "a.tex": b"A", "b.tex": b"B\n  \\endinput hidden", "c.tex": b"C", "d/e.tex": b"E\\input{k}", "d/k.tex": b"K",
    "d/f.tex": b"F\\input{k}", "h.tex": b"H", "i.tex": b"I", "j.tex": b"J",
    "g.tex": b"\\documentclass[main]{subfiles}\\usepackage{x}\\begin{document}G\\end{document} hidden",
}  # fmt: skip


def test_inputs_of_all_kinds_are_in_their_places():
    latex, main = latex_of(INPUTS)
    body = latex.partition("\\begin{document}")[2]
    assert main == "main.tex"
    assert "".join(body.replace("\\end{document}", "").replace("{}", "").split()) == "ABCEKFKGHIJ"


def test_text_behind_the_end_of_an_input_stays():
    files = {
        "main.tex": paper(b"\\input{one} Second. \\input{two} Third."),
        "one.tex": b"\\documentclass{standalone}\\begin{document}One.\\end{document}",
        "two.tex": b"Two.%\\end{document}\n\\begin{verbatim}\n\\end{document}\n\\end{verbatim} Rest.\\end{document} gone",
    }
    latex, _ = latex_of(files)
    assert all(word in latex for word in ("One.", "Second.", "Two.", "Rest.", "Third."))
    assert "gone" not in latex


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["größe", "n" * 150, "d/" * 90 + "n"])
def test_inputs_may_have_long_and_non_latin_names(tmp_path, form, name):
    files = {"main.tex": paper(b"\\input{%s}" % name.encode()), f"{name}.tex": b"The real paper."}
    documents, bad, _ = read_eprints(tmp_path, tar_of(files, format=form))
    assert (bad, len(documents)) == ([], 1)
    assert "The real paper." in documents[0]["text"]


def special(name, kind, size=0, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, link
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.slow
def test_eprints_that_grow_are_bad_rows(tmp_path):
    end, main = b"\0" * 1024, tar_of({"main.tex": REAL})[: 512 * 2]
    huge = special("a.tex", tarfile.REGTYPE, 1 << 40)
    bombs = [
        b"\\a" + b"\0" * (70 << 20), huge + end, special("a", tarfile.GNUTYPE_LONGNAME, 1 << 30) + end,
        tar_of({f"{i}.tex": b"" for i in range(21_000)}), {"main.tex": b"\\input{main2}" + REAL} | {
            f"main{i}.tex": b"\\input{main%d}" % (i + 1) * 2 for i in range(2, 40)},
        main + special("a", tarfile.GNUTYPE_SPARSE, 1 << 35) + end,
    ]  # fmt: skip
    good = [
        main + special("a", kind, 0, "main.tex") + end
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    ]
    cycle = {
        "main.tex": paper(b"\\input{a}"),
        "a.tex": b"The real paper.\\input{b}\\input{main}",
        "b.tex": b"\\input{a}",
    }
    packed = {"main.tex": REAL, "a.gz": gzip.compress(gzip.compress(b"\0" * (1 << 24)))}

    def counts():
        with replaced_limits(eprint_bytes=1 << 26):
            documents, bad, skipped = read_eprints(tmp_path, *bombs, *good, cycle, packed)
        return len(bad), skipped, [row["text"] for row in documents], [row.reason for row in bad]

    bad, skipped, texts, reasons = run_bounded(counts, cpu_seconds=50, resident=1 << 30).result
    assert (bad, skipped) == (len(bombs), {}), reasons
    assert len(texts) == len(good) + 2
    assert all("The real paper." in text for text in texts)


def test_limits_of_eprints_come_from_the_limits_record(tmp_path):
    for bound, reason in (
        ("eprint_files", "1 files"),
        ("eprint_characters", "1 characters"),
        ("eprint_bytes", "1 bytes"),
    ):
        with replaced_limits(**{bound: 1}):
            _, bad, _ = read_eprints(tmp_path, {"a.tex": REAL, "b.tex": b"b"})
            assert f"more than {reason}" in bad[0].reason or "at most 1" in bad[0].reason

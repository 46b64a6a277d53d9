"""Hostile wikitext and dumps: time grows with the input, and memory is bounded."""

import bz2
import io

import pytest
import zstandard
from bombs import run_bounded
from growth import grows_linearly
from web_archives import read_file

from zyda_flows.tasks.extraction.wikitext import BACK_MATTER, text_of_wikitext
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.sources.formats.wikipedia import Pages
from zyda_flows.tasks.storage.stores import Stream

# The beginnings of inputs, and the repeated strings: quadratic if a pattern searches for an end at each place.
BEGINNINGS = {
    "": [
        "{{lang|", "{{convert|1|", "[http://x ", "{|\n|", "{{", "[[", "]]", "[[a|", "<ref>", "<ref", "<!--", "''", "(", "( ;",
        "\n== a ==", "\n=", "*", "#", ":", "&", "&#", "&#1", "<nowiki>", "<math></ref>", "<code>", "<sup>", "<blockquote>",
        "-{", "}-", "-{zh-hans:", "|", "||", "\n|-", "!!", "{{a|b=", "<a b='", "`", "<pre>`", "__A", "\x01", " .", "<br>",
    ],
    "{{lang|": [" ", "a ", "a|", "="], "{{convert|1|": [" ", "km|2|", "to|2|", ",|"], "{{ipac|": ["us|"],
    "[http://x": [" ", "\t", "x", " a"], "{|\n| colspan=": [" ", "'", "colspan="], "{|\n| colspan": [" "],
    "{|\n| rowspan=999 colspan=200 | a\n": ["|-\n| b\n", "| rowspan=9 | c "], "<source lang": [" ", "="],
    "-{": ["; ", "zh-hans:", "a;", "zh-hans:a;", "|"], "[[aa": ["-b", ":"], "(": [" ", ";", ","], "<ref": [" ", "a"],
    "<math>": ["</math", "</math "], "{{frac|": ["1|"], "{{hlist|": ["a|"], "\n;": [" : ", ";"], "&#": ["1"], "#": [" ", "redirect"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_time_grows_with_the_wikitext(beginning):
    for repeated in BEGINNINGS[beginning]:

        def make(n, beginning=beginning, repeated=repeated):
            return beginning + repeated * n + "x}}"

        assert grows_linearly(lambda text: text_of_wikitext(text, BACK_MATTER), make, 1000), repeated


def test_table_is_not_padded_beyond_the_limit():
    text = "{|\n| rowspan=999 colspan=200 | a\n" + "|-\n| b\n" * 20_000 + "|}"
    run = run_bounded(text_of_wikitext, text, resident=1 << 30)
    assert len(run.result) < 10 * len(text)
    with replaced_limits(wikitext_columns=3, wikitext_padding=2):
        assert text_of_wikitext("{|\n| a || b || c || d\n|}") == "a\n\nb\n\nc\n\nd"


HEAD = (
    "<mediawiki><siteinfo><base>https://x.org/wiki/M</base><namespaces>"
    '<namespace key="-2" case="first-letter">Klangwerk</namespace><namespace key="6" case="first-letter">Bild_werk</namespace>'
    '<namespace key="14" case="first-letter">Kategorie</namespace></namespaces></siteinfo>\n'
)


def article(text, number=1):
    return (
        f"<page><title>T</title><ns>0</ns><id>{number}</id><revision><id>7</id>"
        f"<timestamp>2024-01-01T00:00:00Z</timestamp><text>{text}</text></revision></page>\n"
    )


def test_names_of_namespaces_come_from_the_head_of_a_dump(tmp_path):
    text = "a [[Bild_werk:x.jpg|b [[c]]]] [[ bild werk : y]] [[Kategorie:z]] [[Klangwerk:k]] [[Bildwerk:d]] e"
    (tmp_path / "dump.xml").write_text(HEAD.replace("Bild_werk", "Bild werk") + article(text))
    documents, bad, _ = read_file(tmp_path / "dump.xml")
    assert bad == []
    assert text_of_wikitext(documents[0]["text"]) == "a Bildwerk:d e"


GIB = 1 << 30


def zeros_of_zstd(size):
    return zstandard.ZstdCompressor().compress(bytes(size))


BOMBS = {
    "spaces": (".bz2", lambda: bz2.compress(HEAD.encode()) + bz2.compress(b" " * 4_500_000) * 900),
    "a long page": (".bz2", lambda: bz2.compress((HEAD + "<page>").encode()) + bz2.compress(b"a" * 4_500_000) * 900),
    "a long head": (".zst", lambda: zstandard.compress(b"<mediawiki>") + zeros_of_zstd(1 << 25) * 16),
    "elements": ("", lambda: (HEAD + "<page>" + "<a/>" * 9_000_000 + "</page>" + article("b")).encode()),
    "deep elements": ("", lambda: (HEAD + "<page>" + "<a>" * 9_000_000 + "</page>" + article("b")).encode()),
    "attributes": ("", lambda: (HEAD + "<page><a " + " ".join(f'a{n}=""' for n in range(1_000_000)) + "/></page>" + article("b")).encode()),
    "entities": ("", lambda: (HEAD + '<page><!DOCTYPE a [<!ENTITY b "c">]>&b;</page>' + article("b")).encode()),
    "long numbers": ("", lambda: (HEAD + article("a", "9" * 10_000) + article("a", 1 << 70) + article("b")).encode()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bomb_in_a_dump_is_rejected_at_low_cost(name, tmp_path):
    ending, make = BOMBS[name]
    path = tmp_path / f"dump.xml{ending}"
    path.write_bytes(make())
    documents, bad = run_bounded(lambda: [*map(len, read_file(path)[:2])], cpu_seconds=60).result
    assert bad or name == "spaces"
    assert documents == (not ending)


DUMPS = {
    "pages without an end": lambda n: b"<page>" * n, "pages": lambda n: b"<page></page>" * n,
    "namespaces": lambda n: b'<namespace key="1"' * n, "addresses": lambda n: b"<base>//" * n,
    "blocks of a byte": lambda n: bz2.compress(b"a") * n, "ends": lambda n: b"<page>" + b"</page>" * n,
    "tags": lambda n: b"<page>" + b"<a " * n + b"</page>",
}  # fmt: skip


@pytest.mark.parametrize("name", DUMPS)
def test_time_grows_with_the_dump(name):
    def count(content):
        url = "x.xml.bz2" if content.startswith(b"BZh") else "x.xml"
        return sum(1 for _ in Pages(Stream(url, io.BytesIO(content))))

    assert grows_linearly(count, DUMPS[name], 1000)

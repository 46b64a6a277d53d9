"""The text contains every visible word of the main content, for all scripts, lengths and elements."""

import random
from html import unescape
from html.entities import html5

import pytest
from resiliparse.extract.html2text import extract_plain_text

from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text

SCRIPTS = {
    "latin": "and house é ß œuvre ø “ ” – … € ‡",
    "cyrillic": "и дом я ё ѣ слово № —",
    "greek": "και σπίτι ή ὁ ἀρχή ᾳ",
    "arabic": "و بيت ﷺ كتاب ، ء",
    "hebrew": "ו בית א ספר ־",
    "devanagari": "घर न किताब ॐ । क्या",
    "thai": "บ้าน ก หนังสือ ๆ ฿",
    "han": "猫 東京 北 书 㐀 𠮷 「 」",
    "kana": "と ア とうきょう ー ー カ ㌔ ｱ",
    "hangul": "집 책 그 한국어 ㄱ",
    "georgian": "და სახლი ა წიგნი",
    "amharic": "እና ቤት ሀ መጽሐፍ ።",
    "armenian, tamil, tibetan": "և տուն வீடு ஓ ཨ བོད",
    "private": "ꦲ ⵣ ᚠ ᠠ ⠿ ⌘ ☃ ∑ ※",
}
INLINE = [
    "b",
    "i",
    "em",
    "strong",
    "span",
    "code",
    "q",
    "cite",
    "mark",
    "dfn",
    "abbr",
    "small",
    "u",
    "s",
    "var",
    "kbd",
    "samp",
    "bdi",
    "data",
    "output",
    "ins",
    "del",
    "big",
    "tt",
    "font",
    "time",
    "label",
    "button",
]
BLOCKS = (
    "<p>{}</p>", "<div>{}</div>", "<h2>{}</h2>", "<h3>{}</h3>", "<ul><li>{}<li>{}</ul>", "<ol><li>{}</li></ol>",
    "<dl><dt>{}<dd>{}</dl>", "<blockquote>{}</blockquote>", "<pre>{}</pre>", "<figure><figcaption>{}</figure>",
    "<table><tr><td>{}<td>{}<tr><td>{}<td>{}</table>", "<table><caption>{}</caption><tr><th>{}<td>{}</table>",
    "<section>{}</section>", "<address>{}</address>", "<details><summary>{}</summary>{}</details>",
    "<p><ruby>{}<rp>(</rp><rt>{}</rt><rp>)</rp></ruby></p>", "<p>{}<br>{}<wbr>{}</p>", "{}<hr>{}",
)  # fmt: skip
PAGE = "<!doctype html><html><body><div><main><article><div>{}</div></article></main></div></body></html>"
EXTRACTORS = pytest.mark.parametrize("extract", [main_content, structured_text])


def reference(word, rng):
    """Return the characters of a word as references in random forms."""
    return "".join(rng.choice(["&#{};", "&#x{:x};", "&#X{:04X};", "&#0{};"]).format(ord(c)) for c in word)


def sentence(words, rng):
    """Return HTML of words, some of them in inline elements."""
    parts = []
    for k, word in enumerate(words):
        html = reference(word, rng) if rng.random() < 0.2 else word
        space = rng.choice(["", " ", "\n  ", "<!-- x -->"])
        if rng.random() < 0.6:
            tags = rng.sample(INLINE, 1 + (rng.random() < 0.2))
            if {"time", "label", "button"} & {*tags} and not 0 < k < len(words) - 1:
                tags = ["b"]
            html = (
                "".join(f"<{t}>" for t in tags)
                + space
                + html
                + space
                + "".join(f"</{t}>" for t in tags[::-1])
            )
        parts.append(html)
    return rng.choice([" ", "\n"]).join(parts)


def page(words, rng):
    """Return a page of sentences in all kinds of blocks, and the characters of its words in order."""
    page_words, blocks = [], []
    for block in rng.sample(BLOCKS, len(BLOCKS)):
        sentences = [
            [words[0], *rng.choices(words, k=rng.randint(1, 6)), words[0]] for _ in range(block.count("{}"))
        ]
        if rng.random() < 0.4:  # a single word, often of a single character
            sentences = [rng.choices(words) for _ in sentences]
        page_words += [word for words_of_sentence in sentences for word in words_of_sentence]
        blocks.append(block.format(*(sentence(words_of_sentence, rng) for words_of_sentence in sentences)))
    return PAGE.format("".join(blocks)), "".join(page_words)


@EXTRACTORS
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_word_in_every_script_is_in_the_text(extract, script):
    rng = random.Random(script)
    for _ in range(12):
        html, characters = page(SCRIPTS[script].split(), rng)
        text = extract(html)
        wanted = {*characters}
        assert "".join(c for c in text if c in wanted) == characters


@EXTRACTORS
@pytest.mark.parametrize(
    "inner",
    [
        "猫",
        " 猫\n",
        "&#29483;",
        "&#x732b",
        "&#x0000732B;",
        "猫<!-- a -->",
        "<!-- a -->猫",
        "\0猫",
        "&#32;猫&#10;",
    ],
)
@pytest.mark.parametrize("element", ["b", "td", "rb", "h2", "li", "code", "pre", "custom-element", "mi"])
def test_single_character_is_kept_in_all_forms(extract, inner, element):
    within = {"td": "<table><tr>{}<td>a</table>", "rb": "<ruby>{}</ruby>", "mi": "<math><mfrac>{}</math>"}
    html = within.get(element, "<ul>{}</ul>" if element == "li" else "{}").format(
        f"<{element}>{inner}</{element}>"
    )
    assert "猫" in extract(PAGE.format(f"<p>Some words before it.</p>{html}<p>Some words after it."))


@EXTRACTORS
@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("It costs <b>&euro;</b>5 <span>&ndash;</span> <b>&#128;</b>6", "It costs €5 – €6"),
        ("<b>¶</b> 12, <a href=#x>¶</a>of a link", "¶ 12, of a link"),
        ("an <i>\ue001</i>icon", "an icon"),
        ("a\u2060b <b>\u2060猫</b>\u2060", "a\u2060b \u2060猫\u2060"),
        ("<b>猫</b>\1\2 &#3;&#x4; &#xFDD1;", "猫\1\2 \3\4 \ufdd1"),
        ("<b>&unknownentity;</b> <b>&amp;</b> <b>&nbsp;</b>|", "&unknownentity; & \xa0|"),
        ("می<b>\u200c</b>خواهم", "می\u200cخواهم"),
        ("a<b>\u3000</b>b", "a\u3000b"),
        ("On <time>1 September</time> war began", "On 1 September war began"),
        ("It ended on <b><time datetime=x>8 May</time></b>.", "It ended on 8 May."),
        ("Press <button class=x>OK</button> and <LABEL>go</LABEL > on", "Press OK and go on"),
        ("Text before it.<p><time>3 May</time></p><p><button>Accept</button></p>", "Text before it."),
    ],
)
def test_lone_characters_and_dates_are_kept(extract, html, text):
    assert extract(PAGE.format(f"<p>{html}")) == text


@EXTRACTORS
def test_every_lone_character_with_a_name_is_kept(extract):
    """Characters for private use are pictures. In Markdown, some characters are escaped by a backslash."""
    names = [name for name, text in html5.items() if text.strip() and not "\ue000" <= text <= "\uf8ff"]
    paragraphs = "".join(f"<p>a{i} <b>&{name}</b> b{i}</p>\n" for i, name in enumerate(names))
    text = extract(f"<main><p>{'Some words of prose. ' * 30}</p>{paragraphs}</main>").replace("\\", "")
    kept = {
        name
        for i, name in enumerate(names)
        if html5[name].strip().replace("\\", "")
        in unescape(text.partition(f"a{i} ")[2].partition(f"b{i}")[0])
    }
    assert not set(names) - kept
    assert len(names) > 2000


@EXTRACTORS
def test_page_with_all_marker_characters_raises(extract):
    taken = "".join(map(chr, (*range(1, 9), *range(14, 28), 127))) + "".join(
        f"&#x{c:x};" for c in range(0xFDD1, 0xFDF0)
    )
    assert extract(PAGE.format(f"<p>{taken} and words")).endswith("and words")
    with pytest.raises(ValueError, match="control characters"):
        extract(PAGE.format(f"<p>{taken}<b>猫</b>"))


def test_resiliparse_still_drops_lone_characters():
    """If this fails, resiliparse is fixed: remove `tasks/extraction/lone_characters.py` (docs/design.md)."""
    assert extract_plain_text(PAGE.format("<p>a <b>猫</b> b"), main_content=True) == "a b"

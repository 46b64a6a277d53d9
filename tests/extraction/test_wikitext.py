"""The readable text of MediaWiki's markup."""

import bz2
import re
import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.extraction.wikitext import BACK_MATTER, text_of_wikitext
from zyda_flows.tasks.limits import limits

CASES = {
    "emphasis": ("A '''bold''' and ''slanted'' '''''word'''''.", "A bold and slanted word."),
    "links": ("[[Paris]], [[Paris|the city]], [[bus]]es, [[Mercury (planet)|]]", "Paris, the city, buses, Mercury"),
    "outer links": ("[http://a.b c d], [https://a.b] and http://c.d", "c d, and http://c.d"),
    "pictures": ("a [[File:x.jpg|thumb|A [[city]] at night]] b [[Datei:y.png]] c", "a b c"),
    "categories": ("text\n[[Category:Cities]]\n[[Kategorie:Orte|x]]\n[[:Category:Shown]]", "text\n\nCategory:Shown"),
    "other languages": ("text\n[[de:Stadt]]\n[[zh-min-nan:Siâⁿ-chhī]]", "text"),
    "references": ('a<ref>[[x]] {{cite}}</ref>, b<ref name="n" />.<references/>', "a, b."),
    "comments": ("a<!-- b\n -->c<!-- never closed", "ac"),
    "headings": ("== One ==\na\n=== Two ===\nb\n= Title =\nc", "## One\n\na\n\n### Two\n\nb\n\n# Title\n\nc"),
    "heading over nothing": ("a\n== Empty ==\n{{box}}\n=== Also ===\n== Full ==\nb", "a\n\n## Full\n\nb"),
    "lists": ("* a\n** b\n* c<br>d\n# e\n## f\n#* g\n* {{box}}", "- a\n  - b\n- c d\n1. e\n   1. f\n   - g"),
    "definitions": ("; term : what it is\n; word\n: meaning", "term\n: what it is\nword\nmeaning"),
    "indented": (":a\n::b\n* c\n*: d", "a\nb\n- c\n  d"),
    "break": ("a<br/>b<br>c", "a\nb\nc"),
    "rule and switch": ("__NOTOC__\na\n----\nb", "a\n\nb"),
    "infobox": ("{{Infobox city\n| name = [[X]]\n| area = {{convert|5|km2}}\n}}\n'''X''' is", "X is"),
    "formulas": ("<math>a_{1} < b</math>, <math display=block>x^2</math>", "$a_{1} < b$,\n\n$$x^2$$"),
    "code": ("<code>a ''b'' &lt; [[c|d]]</code> <code><nowiki>[[x]]</nowiki></code>", "`a b < d` `[[x]]`"),
    "block of code": ('<syntaxhighlight lang="python">\nif a:\n    "[[b]]"\n</syntaxhighlight>', '```python\nif a:\n    "[[b]]"\n```'),
    "code with a fence": ("<pre>```\na</pre>", "````\n```\na\n````"),
    "not markup": ("<nowiki>[[a]] ''b'' {{c}} &amp;</nowiki> * d", "[[a]] ''b'' {{c}} & * d"),
    "entities": ("a&nbsp;b &lt;i&gt; &#8211; &amp;lt;", "a b <i> \N{EN DASH} &lt;"),
    "entities are no markup": ("&#91;&#91;a&#93;&#93; &#123;&#123;b", "[[a]] {{b"),
    "tags": ("a<sub>2</sub> <span style='x'>b</span> <T> 1 < 2", "a2 b <T> 1 < 2"),
    "exponents": ("10<sup>&minus;7</sup> m<sup>2</sup>, 1<sup>st</sup> [[a|b<sup>x]]", "10⁻⁷ m², 1st bx"),
    "quotation": ("a<blockquote>b\nc</blockquote>d", "a\n\n> b\n> c\n\nd"),
    "parentheses around nothing": ("X ({{audio}}; {{box}}) is (; a) thing {{box}}.", "X is (a) thing."),
    "redirect": ("#REDIRECT [[Paris]]", ""),
    "nothing": ("", ""),
    "pictures of all languages": (
        "[[Media]] and [[file|files]] A [[תמונה:x.jpg|ממוזער|b]] c [[カテゴリ:Z]] [[ไฟล์:x]] [[Файл:x|y]] [[Tập_tin:x]] [[चित्र:x.jpg|a]] [[ملف:x]] d", "Media and files A c d",
    ),
    "variants": ("-{zh-hans:简;zh-hant:簡}- -{zh-tw:資訊; zh-cn:信息;}- -{sr-ec:А;sr-el:A}-", "简 信息 А"),
    "variants of rules": ("a-{H|zh-cn:x;zh-tw:y}-b -{A|zh-hans:c;zh-hant:d}- -{T|e}- -{R|f}- -{zh-hans;zh-hant|g}-", "ab c f g"),
    "variants with markup": ("-{zh-hans:[[a|b]] {{lang|de|c}}; zh-hant:d}- -{&nbsp;e}-", "b c e"),
    "no variants": ("1-{{frac|1|2}}- a-{ b }- c}- -{d", "1-1/2- a b c}- d"),
    "addresses": (
        "See http://x.example/?a=1&section=2&copy=3&region=us&para=1 now, [http://x.y/?a&lt=1 a&amp;b &copy; &#65;]",
        "See http://x.example/?a=1&section=2&copy=3&region=us&para=1 now, a&b \u00a9 A",
    ),
    "no entities": ("&nosuch; &#99999999999; &" + "#1" * 3 + " &amp &#x110000;", "&nosuch; &#99999999999; &#1#1#1 &amp \ufffd"),
    "never closed": ("a [[b|c and {{d|e\n\nf", "a b|c and d|e\n\nf"),
    "never opened": ("a]] b}} c\n|}\nd", "a]] b}} c\n|}\nd"),
    "crossed": ("{{a|[[b}} c]]", "c]]"),
}  # fmt: skip
TEMPLATES = {
    "{{gbp|5}}, {{US$|6}}, {{€|9}}, {{currency|10|USD}}, {{INRConvert|8|c}}": "£5, US$6, €9, $10, ₹8 crore",
    "{{sortname|John|Doe}}, {{langue|en|hello}}, {{nombre|1000|m}}": "John Doe, hello, 1000 m",
    "{{date|1|janvier|2000}}, {{birth date and age|1980|3|4}}": "1 janvier 2000, 1980-3-4",
    "a {{resize|90%|small}} word{{hs|key}}": "a small word",
    "{{lang|de|Stadt}}": "Stadt",
    "{{lang-de|Stadt}}": "Stadt",
    "{{Lang|fr|1=x|2=mot}}": "mot",
    "{{convert|5|km}}": "5 km",
    "{{convert|5|to|10|km2|sqmi|abbr=on}}": "5 to 10 km²",
    "{{convert|3|-|4|C}}": "3\N{EN DASH}4 °C",
    "{{convert|5|ft|11|in|m|abbr=on}} {{convert|11|st|4|lb|kg}} {{cvt|8|lb|12+1/2|oz}}": "5 ft 11 in 11 st 4 lb 8 lb 12 1/2 oz",
    "{{convert|3|,|4|and|5|km}} {{convert|3|,|4|, or|5|km}}": "3, 4 and 5 km 3, 4, or 5 km",
    "{{convert|5|ft|6|in|to|6|ft|1|in|cm}}": "5 ft 6 in to 6 ft 1 in",
    "{{convert|1|mi|2|furlong|3|yd|0}} {{convert|100|ft|2}} {{convert|100|ft|m|2}}": "1 mi 2 furlong 3 yd 100 ft 100 ft",
    "{{convert|10|x|20|xx|30|m}} {{convert|1.5|e6km2}} {{convert|-5|\u00b1|2|C}}": "10 \u00d7 20 \u00d7 30 m 1.5 million km\u00b2 -5 \u00b1 2 \u00b0C",
    "{{convert|5}} {{convert|5|to}} {{convert}} {{convert||km}}": "5 5 km",
    "a{{nbsp}}b{{ndash}}c{{snd}}d": "a b\N{EN DASH}c \N{EN DASH} d",
    "{{nowrap|a {{lang|la|b}}}}": "a b",
    "{{quote|a [[b]]|Someone}}": "> a b\n> \N{EM DASH} Someone",
    "{{quote|text=a=b}}": "> a=b",
    "{{IPA|/a/}} {{IPA-el|aristotélɛːs}}": "/a/ [aristotélɛːs]",
    "{{IPAc-en|pron|ˈ|æ|s|k|i|,_|a}}": "/ˈæski, a/",
    "{{respell|ASS|kee}}": "ASS-kee",
    "{{frac|1|2}} {{frac|3|1|2}}": "1/2 3 1/2",
    "{{formatnum:1234567}} {{formatnum:1.5}}": "1,234,567 1.5",
    "{{chem|H|2|O}}": "H2O",
    "{{hlist|a|b |}}": "a, b",
    "{{circa|1500}}": "c. 1500",
    "{{As of|2010|5}}": "As of 2010-5",
    "{{nihongo|''Word''|言葉|kotoba}}": "Word (言葉, kotoba)",
    "{{transl|ar|ALA|al}}": "al",
    "{{abbr|a|b}}": "a",
    "{{cite web|url=x|title=y}}{{Main|a}}{{#if:a|b}}{{unknown|a}}{{}}": "",
}
TABLE = """{| class="wikitable"
|+ Towns
! Name !! style="x" | People
|-
| [[A|B]] || {{formatnum:1000}}
|-
| rowspan="2" | C || 1
more
|-
| colspan=1 | a{{!}}b
|}"""


@pytest.mark.parametrize("case", CASES)
def test_markup_becomes_markdown(case):
    wikitext, expected = CASES[case]
    assert text_of_wikitext(wikitext) == expected


@pytest.mark.parametrize("wikitext", TEMPLATES)
def test_template_in_a_sentence_becomes_text(wikitext):
    assert text_of_wikitext(wikitext) == TEMPLATES[wikitext]


def test_table_has_a_cell_in_each_column():
    assert text_of_wikitext(TABLE) == (
        "Towns\n\n| Name | People |\n| --- | --- |\n| B | 1,000 |\n| C | 1 more |\n| | a\\|b |"
    )


def test_layout_table_becomes_its_cells():
    inner = "{|\n| a || b\n|-\n| c || d\n|}"
    markdown = "| a | b |\n| --- | --- |\n| c | d |"
    assert (
        text_of_wikitext(f"{{|\n| text\n|\n{inner}\n|\n{inner}\n|}}") == f"text\n\n{markdown}\n\n{markdown}"
    )


def test_sections_of_back_matter_are_removed():
    wikitext = "a\n== See also ==\n* b\n=== More ===\nc\n== Life ==\nd\n=== Notes ===\ne\n== References ==\nf"
    assert text_of_wikitext(wikitext, BACK_MATTER) == "a\n\n## Life\n\nd"
    assert "- b" in text_of_wikitext(wikitext)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    ["[[", "{{", "'''", "\n{|", "[[a|", "{{a|", "<ref>", "<ref ", "<math>", "<!--", "[http://a ", "]]", "}}", "|",
     "<blockquote>", "<code>", "\n|-\n|", "\n* a", "( ;", "= ", "&#", "&amp;", "<", " "],
)  # fmt: skip
def test_time_is_linear_for_markup_that_is_never_closed(part):
    times = []
    for count in (20_000, 200_000):
        start = time.process_time()
        text = text_of_wikitext(part * count + ".")
        times.append(time.process_time() - start)
        assert len(text) < 5 * len(part) * count + 100
    assert times[1] < 40 * times[0] + 0.5  # the square of it would be a hundred times as long


def test_markup_beyond_the_depth_limit_is_text():
    deep = limits().wikitext_depth + 10
    assert text_of_wikitext("{{nowrap|" * 10 + "a" + "}}" * 10) == "a"
    assert "a" in text_of_wikitext("{{nowrap|" * deep + "a" + "}}" * deep)


@given(
    st.lists(
        st.sampled_from(
            ["[[", "]]", "{{", "}}", "{|", "|}", "|", "||", "\n", "|-", "!", "a", "lang", " ", "<ref>", "</ref>", "''",
             "<pre>", "</pre>", "<code>", "</code>", "<br>", "=", "*", "#", ";", ":", "&amp;", "\0", "\1", "0", "<nowiki>",
             "</nowiki>", "<blockquote>", "</blockquote>", "<!--", "-->", "File:", "convert", "9", "rowspan=3 |"]
        )
    )
)  # fmt: skip
def test_random_markup_becomes_text_without_marks(parts):
    text = text_of_wikitext("".join(parts))
    assert not re.search("[\0\1]", text)
    assert text.count("a") <= "".join(parts).count("a")


def test_text_of_articles_is_the_text_that_readers_see(shared):
    """The expected texts are copied from the articles as the encyclopedia shows them."""
    with bz2.open(next((shared / "web/wiki").glob("enwiki-*.bz2"))) as file:
        pages = {}
        for _, page in ElementTree.iterparse(file):
            if page.tag.endswith("}page"):
                names = {child.tag.rpartition("}")[2]: child for child in page.iter()}
                pages[names["title"].text] = names["text"].text or ""
    aristotle = text_of_wikitext(pages["Aristotle"])
    assert aristotle.startswith(
        "Aristotle (/ˈærɪˌstɒtəl/; Ἀριστοτέλης [aristotélɛːs], Aristotélēs; 384\N{EN DASH}322 BC) was"
    )
    assert "about 55 km (34 miles) east of modern-day Thessaloniki." in aristotle
    ascii_ = text_of_wikitext(pages["ASCII"])
    assert "| 000 1000 | 010 | 8 | 08 | BS | ␈ | `^H` | `\\b` | Backspace |" in ascii_
    assert text_of_wikitext(pages["AccessibleComputing"]) == ""
    for text in map(text_of_wikitext, pages.values()):
        assert not re.search(r"\[\[|<ref|thumb\|", text)

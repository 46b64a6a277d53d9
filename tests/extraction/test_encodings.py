"""Bytes are decoded by the tables of the Encoding Standard: all sequences of up to three bytes, and random bytes.

The digests are of the texts that `@exodus/bytes` 1.16, an implementation of the standard, returns for the bytes.
"""

import hashlib
from collections.abc import Iterator

import pytest

from zyda_flows.tasks.extraction.code_pages import text_in
from zyda_flows.tasks.extraction.decoding import decode_page, named_encoding

DIGESTS = """
    ibm866 f5b16a4b518fb81c a310de5999ddddd0
    iso-8859-2 ac0b67494e427ca0 913f70a758dc0755
    iso-8859-3 68c8bb3c31442d1d 5fcd93fc82285d17
    iso-8859-4 49e967d3b3db0288 cd507ce1b0434675
    iso-8859-5 ca339594fcead645 23fbbe5de0bd984f
    iso-8859-6 92bf629f80cd628f fbe60ac43f0f0544
    iso-8859-7 352629bd069d37b1 cadabb85c1d28604
    iso-8859-8 0e9a8131c4505cca 5e81579bb4a6aab1
    iso-8859-10 0e9d11e76a55960e 346def925088f22e
    iso-8859-13 af68e1f2ddf006f3 d2cd391184dc73ed
    iso-8859-14 79d33b37224ad351 f48876faee67afa4
    iso-8859-15 15d5fb6d57af986a d1a16d3baee5c4d7
    iso-8859-16 d70bfe666f81d6e4 4c51ca27372d1c5f
    koi8-r 26948211ce3f6adb 4fdc205ffd2b6b82
    koi8-u df8b8f393dee764b 46b239c2e8b6ba78
    macintosh 1da17f62cca50cf2 4df2c89f38b96fdb
    windows-874 3211d9f0fe7a72e4 967417a2d9135bd9
    windows-1250 d686a6da2ab31003 374725f078a77b44
    windows-1251 4a394bf5c8dd1096 a774a079b25b5178
    windows-1252 9484405d2dcacf4e e64b7d5ae87672e5
    windows-1253 9ddb0a64e9aff52f 9fc3c7a34265808b
    windows-1254 8100eea3266342bc a1b3f0b09fdec80b
    windows-1255 86d305a48f27c59b 9ec8fbc121a168dc
    windows-1256 202a9199269787ef 42d9138353fb5fbc
    windows-1257 ca8dad914b1a5c08 0bdc6c9488cb9ea8
    windows-1258 bdaed99234052b83 50d746d03fbe31df
    x-mac-cyrillic aa0ae4211dc13b56 a91738425f40c1b4
    x-user-defined 36e11f821b537f91 89b41f0acebd9e20
    gbk 53dfcdae6b686dff b61b77b0d20d7c22
    gb18030 7f305b2885a33490 81f8a3eba7051530
    big5 4ef91afaa23aed12 dbea7319378ffd8c
    euc-jp 63b75bc5561ea5f9 109fc803e587d9e8
    iso-2022-jp 40173ceb28c30dae 1e9f1418333ebb57
    shift_jis 3ef10790905b0196 bf69e69aa296ba24
    euc-kr bf9766448044feb5 e82a0e7bd5d4af05
    utf-16le e7ad8733dc9ebbb9 9573940584e15756
    utf-16be 7cf482b830d8ed5f aa19cb7c2ab85a11
    utf-8 6497462a51bb61eb 123dad8ac75d53f7
"""
FEW = bytes.fromhex("1b242840 42494a30 3541217e 80818e8f a0a1a2b0 c6d8dce3 f0fdfeff 0a0e3c0f")


def sequences(name: str) -> Iterator[bytes]:
    """Yield each byte, all pairs whose first byte is not ASCII, and the longer sequences of an encoding."""
    yield from (bytes([a]) for a in range(256))
    yield from (bytes([a, b]) for a in range(128, 256) for b in range(32, 256))
    cells = [bytes([a, b]) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    if name == "euc-jp":
        yield from (b"\x8f" + cell for cell in cells)
    if name == "iso-2022-jp":
        yield from (b"\x1b$B" + bytes(b & 127 for b in cell) for cell in cells)
    if name == "gb18030":
        digits, others = range(0x30, 0x3A), range(0x81, 0xFF)
        four = (
            bytes([a, b, c, d]) for a in range(0x81, 0x85) for b in digits for c in others for d in digits
        )
        yield from (content for content in four if content != b"\x815\xf47")  # private use


def noise(name: str) -> Iterator[bytes]:
    """Yield random bytes of all values, and random bytes that are often a part of a sequence."""
    for k in range(3000):
        content = hashlib.sha256(f"{name} {k}".encode()).digest()
        yield (bytes(FEW[b % len(FEW)] for b in content) if k % 2 else content)[: k % 32]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sequences_digest", "noise_digest"), [line.split() for line in DIGESTS.strip().splitlines()]
)
def test_all_sequences_are_decoded_by_the_standard(name, sequences_digest, noise_digest):
    encoding = named_encoding(name)
    for contents, digest in (sequences(name), sequences_digest), (noise(name), noise_digest):
        text = "\n".join(text_in(content, encoding) for content in contents)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


# Further labels of the standard, by encoding.
LABELS = {
    "windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 l5 latin5 x-cp1254",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese x-euc-jp",
    "euc-kr": "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "iso-2022-jp": "csiso2022jp",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "utf-16be": "unicodefffe",
    "koi8-u": "koi8-ru",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-8859-8-i iso-ir-138 logical visual",
    "macintosh": "csmacintosh mac x-mac-roman",
}


@pytest.mark.parametrize(("name", "labels"), LABELS.items())
def test_labels_equal_the_standard(name, labels):
    content = bytes(range(256)) + "ÄÖ漢字".encode() * 2
    for label in labels.split():
        assert decode_page(content, f" {label.upper()}\t") == decode_page(content, name)


@pytest.mark.parametrize(
    ("label", "content", "text"),
    [
        ("shift_jis", b"\x87\x8a\x8eR\x93c\x87@\xfb\xfc\x8b\xb4\x87U \xb1\xa0", "㈱山田①髙橋Ⅱ ｱ\ufffd"),
        ("x-mac-cyrillic", b"\x90\xf3\xf1\xf1\xea\xe8\xe9", "Русский"),
        ("gb2312", b"\x80\xa6\xd9\x81\x30\x8b\x30\xd5\xe6", "€︐ô真"),
        ("euc-kr", b"\x8c\x63\xb6\xca", "똠똘"),
        ("iso-2022-jp", b"\x1b(I1\x1b$B-!\x1b(J\\\x1b(B.", "ｱ①¥."),
        ("big5", b"\x87\x7a\xf9\xfe\xa2A\x88b", "㡵￭∕Ê̄"),
        ("iso-8859-11", b"\x80\x93\xa1\x94", "€“ก”"),
        ("hz-gb-2312", b"<p>~{VPND~}", "\ufffd"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("shift_jis", b"\x81<p>\x81\xff", "\ufffd<p>\ufffd"),
    ],
)
def test_sequences_that_python_decodes_differently(label, content, text):
    assert decode_page(content, label) == text


@pytest.mark.parametrize(
    ("head", "named"),
    [
        ("<meta charset=koi8-r>", "koi8-r"),
        ("<META content='text/html; charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        ('<meta http-equiv=refresh content="charset=utf-8"><meta charset = "KOI8-R"/>', "koi8-r"),
        ('<?xml version="1.0" encoding="koi8-r"?>', "koi8-r"),
        ('<?xml version="1.0" encoding="utf-8"?><meta charset=koi8-r>', "koi8-r"),
        (
            "<!-- <meta charset=utf-8> --><script>'<meta charset=utf-8>'</script><meta charset=koi8-r>",
            "koi8-r",
        ),
        ("<meta charset=nonsense><meta charset=koi8-r>", "koi8-r"),
        (f"<style>{' ' * 20_000}</style><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=x-user-defined>", "windows-1252"),
        ("<meta charset=x-mac-cyrillic>", "x-mac-cyrillic"),
        ("<meta charset=iso-2022-kr>", "replacement"),
        ("<meta charset=utf-16be>", "utf-8"),
        ("<meta charset='koi8-r' charset=utf-8>", "koi8-r"),
    ],
)
def test_declared_encoding_of_a_page_is_read_as_in_browsers(head, named):
    page = head.encode() + bytes(range(128, 256))
    assert decode_page(page, None) == decode_page(page, named)

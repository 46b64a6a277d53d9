"""Texts in one of several scripts or countries' words, as `-{zh-hans:A; zh-hant:B}-` of MediaWiki.

Of the variants the one in simplified characters is taken, or else the first. Source: MediaWiki's LanguageConverter.
"""

import re
from collections.abc import Sequence

# The languages that have variants, each with the code of one.
CODE = re.compile(
    r"(?:^|;)\s*((?:zh|sr|sh|kk|ku|uz|gan|iu|ike|shi|tg|crh|ban|mni|wuu|tly|en)(?:-[a-z]{1,8})?)\s*:"
)
PREFERRED = ("zh-hans", "zh-cn", "zh")
UNSHOWN = frozenset("HTD-")  # flags: rules for the rest of the page, for its title, and for their description


def text_of_variants(parts: Sequence[str]) -> str:
    """Return one of the variants, or nothing for a rule that shows none. parts: the flags, if any, and the rest."""
    flags = {flag.strip() for flag in parts[0].split(";")} if len(parts) > 1 else set()
    text = "|".join(parts[1:]) if flags else parts[0]
    if flags & UNSHOWN:
        return ""
    codes = [] if "R" in flags or "=>" in text else [*CODE.finditer(text)]
    if not codes:
        return text.strip() if flags else text
    ends = [*(code.start() for code in codes[1:]), len(text)]
    texts = {code[1]: text[code.end() : end].strip("; \t\n") for code, end in zip(codes, ends, strict=True)}
    return next((texts[code] for code in PREFERRED if code in texts), texts[codes[0][1]])

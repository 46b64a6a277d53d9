"""Choose one variant of texts such as `-{zh-hans:A; zh-hant:B}-`, which have several scripts or regional words.

The variant in simplified Chinese characters is chosen, or else the first. Source: MediaWiki's LanguageConverter.
"""

import re
from collections.abc import Sequence

# The code of a variant: a language that has variants, and the name of the variant.
CODE = re.compile(
    r"(?:^|;)\s*((?:zh|sr|sh|kk|ku|uz|gan|iu|ike|shi|tg|crh|ban|mni|wuu|tly|en)(?:-[a-z]{1,8})?)\s*:"
)
PREFERRED = ("zh-hans", "zh-cn", "zh")
HIDDEN = frozenset(
    "HTD-"
)  # flags of rules for the rest of the page, for its title, and of their descriptions
RAW = "R"  # flag of a text without variants


def text_of_variants(parts: Sequence[str]) -> str:
    """Return the text of a variant, or "" for a rule without text. parts: the flags, if any, and the texts."""
    if len(parts) == 1:
        return preferred_variant(parts[0])
    flags = {flag.strip() for flag in parts[0].split(";")}
    text = "|".join(parts[1:])
    if flags & HIDDEN:
        return ""
    return text.strip() if RAW in flags else preferred_variant(text, default=text.strip())


def preferred_variant(text: str, default: str | None = None) -> str:
    """Return the preferred variant of a text. default: returned instead of the text if it has no variants."""
    codes = [] if "=>" in text else [*CODE.finditer(text)]
    if not codes:
        return text if default is None else default
    ends = [*(code.start() for code in codes[1:]), len(text)]
    texts = {code[1]: text[code.end() : end].strip("; \t\n") for code, end in zip(codes, ends, strict=True)}
    return next((texts[code] for code in PREFERRED if code in texts), texts[codes[0][1]])

"""The kinds of values that a recipe's fields have: URLs without secrets, numbers that are numbers."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl

from fsspec.registry import known_implementations, registry
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

OF_OTHERS = {"async_wrapper", "data", "dir", "generic", "jlab", "jupyter", "reference"}  # they wrap others
HUB = "hf://"
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SpecialAs = Literal["text", "control"]  # what special tokens that are written in texts become
DURATION = re.compile("[0-9]{1,4}[mhdw]")
SECRETIVE = "a recipe holds no credentials"
SECRET_PARAMETERS = {
    "sig", "signature", "token", "access_token", "key", "api_key", "password",
    "x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential",
}  # fmt: skip


def duration(text: object) -> object:
    """Refuse what is no duration: a whole number of minutes, hours, days or weeks."""
    if not isinstance(text, str) or not DURATION.fullmatch(text):
        raise ValueError("a duration is expected: 90m, 12h, 30d, 8w")
    return text


def in_time(text: str) -> timedelta:
    """Return a duration as it stands in a recipe."""
    return timedelta(**{UNITS[text[-1]]: int(text[:-1])})


class Strict(BaseModel):
    """A frozen part of the recipe in which an unknown field is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def without_credentials(url: str) -> str:
    """Refuse `scheme://user:password@host` and signed URLs; the message does not repeat them."""
    parameters = {name.lower() for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)}
    if re.search(r"[a-z0-9+.-]+://[^/]*@", url, re.IGNORECASE) or parameters & SECRET_PARAMETERS:
        raise ValueError(f"{SECRETIVE}: leave them to the environment or to fsspec's configuration")
    return url


def readable(url: str) -> str:
    """Refuse a URL that says nothing, or of a kind that nothing here reads; write its kind in small letters."""
    if not url.strip() or re.fullmatch(r"[a-z0-9+.-]+:/{0,3}", url.strip(), re.IGNORECASE):
        raise ValueError("a path or a URL with a place in it is expected")
    if "\0" in url:
        raise ValueError("a path holds no null character")
    if "://" not in url:
        try:
            Path(url).expanduser()
        except RuntimeError as error:
            raise ValueError("there is no such user") from error
    # No character but a colon before it: a scheme begins the URL or, after `::`, another link of its chain.
    url = re.sub(r"(?<![^:])[A-Za-z0-9+.-]+(?=://)", lambda scheme: scheme[0].lower(), url)
    for link in url.split("::"):
        scheme = link.partition("://")[0] if "://" in link else ""
        unknown = scheme not in known_implementations and scheme not in registry
        if scheme and (unknown or scheme in OF_OTHERS):
            raise ValueError(f"{scheme}:// is no kind of URL of which files can be read here")
    return url


def number(value: object) -> object:
    """Refuse where a number is expected what is none: true and false, and a number in quotes."""
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", value, re.IGNORECASE):
        raise ValueError(
            "a number is expected, and in YAML this is a text; write it without quotes, as 0.001"
        )
    if isinstance(value, bool | str):
        raise ValueError("a number is expected")
    return value


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing; leave it out")
    return text


def one_or_more(value: object) -> object:
    """Make one URL a list of one."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, str):
        raise ValueError("a URL or a list of URLs is expected")
    return (value,)


def has_commits(url: str) -> bool:
    """Say whether a URL or a pattern names files of a repository on the hub."""
    return url.lower().startswith(HUB) and not url.lower().startswith(f"{HUB}buckets/")


SAYS_SOMETHING = Field(json_schema_extra={"pattern": r"\S"})  # for editors; the validators refuse more
Url = Annotated[str, AfterValidator(without_credentials), AfterValidator(readable), SAYS_SOMETHING]
OneOrMore = (
    Annotated[str, SAYS_SOMETHING] | Annotated[list[Annotated[str, SAYS_SOMETHING]], Field(min_length=1)]
)
Urls = Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=list[str] | str),
]
Number = BeforeValidator(number)
Yes = Annotated[bool, Field(strict=True)]
Duration = Annotated[
    str, BeforeValidator(duration), Field(json_schema_extra={"pattern": f"^{DURATION.pattern}$"})
]

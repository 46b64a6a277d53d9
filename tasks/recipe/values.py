"""The types of values in a recipe, for example URLs without credentials and strict numbers."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl

from fsspec.registry import known_implementations, registry
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

WRAPPERS = {
    "async_wrapper",
    "data",
    "dir",
    "generic",
    "jlab",
    "jupyter",
    "reference",
}  # of other file systems
HUB = "hf://"
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SpecialAs = Literal["text", "control"]  # how special tokens that are written in texts are encoded
DURATION = re.compile("[0-9]{1,4}[mhdw]")
NO_CREDENTIALS = "a recipe must not contain credentials"
SECRET_PARAMETERS = {
    "sig", "signature", "token", "access_token", "key", "api_key", "password",
    "x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential",
}  # fmt: skip


def duration(text: object) -> object:
    """Refuse a value that is not a duration: a whole number of minutes, hours, days or weeks."""
    if not isinstance(text, str) or not DURATION.fullmatch(text):
        raise ValueError("a duration is expected: 90m, 12h, 30d, 8w")
    return text


def as_timedelta(text: str) -> timedelta:
    """Return a duration of a recipe as a timedelta."""
    return timedelta(**{UNITS[text[-1]]: int(text[:-1])})


class Strict(BaseModel):
    """A frozen part of the recipe. An unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def without_credentials(url: str) -> str:
    """Refuse `scheme://user:password@host` and signed URLs. The message does not repeat the URL."""
    parameters = {name.lower() for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)}
    if re.search(r"[a-z0-9+.-]+://[^/]*@", url, re.IGNORECASE) or parameters & SECRET_PARAMETERS:
        raise ValueError(f"{NO_CREDENTIALS}: use environment variables or fsspec's configuration")
    return url


def valid_url(url: str) -> str:
    """Return a URL with its scheme in lower case. Raises ValueError for an empty path and for an unknown scheme."""
    if not url.strip() or re.fullmatch(r"[a-z0-9+.-]+:/{0,3}", url.strip(), re.IGNORECASE):
        raise ValueError("a path is expected, or a URL that contains a path")
    if "\0" in url:
        raise ValueError("a path must not contain a null character")
    if "://" not in url:
        check_user(url)
    # A scheme is at the beginning of the URL or, after `::`, of another link of its chain.
    url = re.sub(r"(?<![^:])[A-Za-z0-9+.-]+(?=://)", lambda scheme: scheme[0].lower(), url)
    for link in url.split("::"):
        check_scheme(link.partition("://")[0] if "://" in link else "")
    return url


def check_user(path: str) -> None:
    """Raise ValueError if the path begins with `~user` and there is no such user."""
    try:
        Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError("the path begins with ~ and the name of an unknown user") from error


def check_scheme(scheme: str) -> None:
    """Raise ValueError if fsspec cannot read files of URLs with this scheme."""
    unknown = scheme not in known_implementations and scheme not in registry
    if scheme and (unknown or scheme in WRAPPERS):
        raise ValueError(f"{scheme}:// is not a supported kind of URL; see fsspec's file systems")


def number(value: object) -> object:
    """Refuse a value that is not a number: true, false, or a number in quotes."""
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", value, re.IGNORECASE):
        raise ValueError(
            "a number is expected, but YAML reads this value as a text; write it without quotes, as 0.001"
        )
    if isinstance(value, bool | str):
        raise ValueError("a number is expected")
    return value


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank; leave the field out")
    return text


def one_or_more(value: object) -> object:
    """Return a list for a single URL."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, str):
        raise ValueError("a URL or a list of URLs is expected")
    return (value,)


def has_commits(url: str) -> bool:
    """Return whether a URL or a pattern names files of a repository on the hub."""
    return url.lower().startswith(HUB) and not url.lower().startswith(f"{HUB}buckets/")


NOT_BLANK = Field(json_schema_extra={"pattern": r"\S"})  # for editors; the validators check more
Url = Annotated[str, AfterValidator(without_credentials), AfterValidator(valid_url), NOT_BLANK]
Expression = Annotated[str, AfterValidator(not_blank), NOT_BLANK]
OneOrMore = Annotated[str, NOT_BLANK] | Annotated[list[Annotated[str, NOT_BLANK]], Field(min_length=1)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda v: (v,) if isinstance(v, str) else v, json_schema_input_type=list[str] | str),
]
Number = BeforeValidator(number)
Flag = Annotated[bool, Field(strict=True)]
Duration = Annotated[
    str, BeforeValidator(duration), Field(json_schema_extra={"pattern": f"^{DURATION.pattern}$"})
]

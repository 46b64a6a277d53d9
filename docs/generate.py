"""Write the pages that are generated from the code: the map, limits, fields and commands."""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zyda_flows.flows.command.cli import app
from zyda_flows.tasks.ablation.experiment import AblationModel, Controls, Experiment, NamedFile, Variant
from zyda_flows.tasks.limits import Limits
from zyda_flows.tasks.mixing.mixture import Budget, Mixture, Part, Validation
from zyda_flows.tasks.recipe.buckets import Bucket
from zyda_flows.tasks.recipe.cleaning import PersonalData
from zyda_flows.tasks.recipe.dedup import Verify
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.file_lists import CommonCrawl, FilesFrom
from zyda_flows.tasks.recipe.joins import Join
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.kinds import ExactRound, MinHashRound
from zyda_flows.tasks.recipe.passages import LongPassages, RepeatedLines, RepeatedParagraphs, SharedUnits
from zyda_flows.tasks.recipe.semantic import Semantic, SemanticRound
from zyda_flows.tasks.recipe.source import Classify, MaxLosses, Source
from zyda_flows.tasks.recipe.steps.registry import KINDS, STEPS

ROOT = Path(__file__).parents[1]
MADE = "`make generate` writes this page."
CHAPTERS = ("flows", "tasks", "deployments", "textkernels")


def models_of_steps() -> dict[str, tuple[str, type[BaseModel]]]:
    """Return the settings of each document step whose settings are a model, by the title of their section."""
    settings = {step.kind: step.model_fields[step.kind].annotation for step in STEPS}
    return {
        f"Step `{kind}`": ("A step of `documents`. ", model)
        for kind, model in settings.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
    }


MODELS: dict[str, tuple[str, type[BaseModel]]] = {
    "Recipe": ("", Recipe),
    "A source": ("An entry of `sources`. ", Source),
    "Deduplication": ("`dedup`, or each of its rounds. ", MinHashRound),
    "Deduplication of equal texts": ("`dedup`, or each of its rounds, with `exact`. ", ExactRound),
    "Semantic deduplication": ("`dedup`, or each of its rounds, with `semantic`. ", SemanticRound),
    "Semantic": ("`dedup.semantic`. ", Semantic),
    "Verify": ("`dedup.verify`. ", Verify),
    "Repeated passages": ("An entry of `passages`, with `length`. ", LongPassages),
    "Repeated lines": ("An entry of `passages`, with `lines`. ", RepeatedLines),
    "Repeated paragraphs": ("An entry of `passages`, with `paragraphs`. ", RepeatedParagraphs),
    "Counted lines and paragraphs": ("`lines` and `paragraphs` of `passages`. ", SharedUnits),
    "A judge": ("An entry of `judges`. ", Judge),
    "Buckets": ("`bucket`. ", Bucket),
    "A join": ("`join` of a source, or an entry of it. ", Join),
    "Classify": ("`classify` of a source. ", Classify),
    "Personal data": ("`pii` of a step `clean`. ", PersonalData),
    "List of files": ("`files_from` of a source. ", FilesFrom),
    "Common Crawl": ("`commoncrawl` of a source. ", CommonCrawl),
    **models_of_steps(),
    "An evaluation set": ("An entry of `sets` of `decontaminate`. ", EvaluationSet),
    "Limits of losses": ("`max_loss`, where it is not one number. ", MaxLosses),
}
MODELS_OF_MIXTURES: dict[str, tuple[str, type[BaseModel]]] = {
    "Mixture": ("", Mixture),
    "A part": ("An entry of `parts`. ", Part),
    "Budget": ("`budget`. ", Budget),
    "Validation": ("`validation`. ", Validation),
}
MODELS_OF_EXPERIMENTS: dict[str, tuple[str, type[BaseModel]]] = {
    "Experiment": ("", Experiment),
    "A variant": ("An entry of `variants`. ", Variant),
    "Model": ("`model`. ", AblationModel),
    "A file": ("An entry of `files` and of `evaluations`. ", NamedFile),
    "Controls": ("`controls`. ", Controls),
}


def module_map() -> str:
    """Return a page with the first sentence of every module, folder by folder."""
    lines = [line for chapter in CHAPTERS for line in modules_of(ROOT / chapter)]
    head = f"# Map\n\nEvery module with the first sentence of its docstring. {MADE}\n"
    return "\n".join([head, *lines]) + "\n"


def modules_of(folder: Path) -> Iterator[str]:
    """Yield the lines about a package: its first sentence, a row for each module, and its packages."""
    place = folder.relative_to(ROOT).as_posix()
    yield f"## {place}/\n\n{sentence(folder / '__init__.py')}\n\n| module | |\n|---|---|"
    for module in sorted(folder.glob("*.py")):
        if not module.name.startswith("__"):
            yield f"| `{module.stem}` | {sentence(module)} |"
    yield ""
    for package in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from modules_of(package)


def sentence(module: Path) -> str:
    """Return the first sentence of a module's docstring. Raises ValueError if the module has no docstring."""
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    if not docstring:
        raise ValueError(f"{module}: expected a docstring that describes the module")
    first = " ".join(docstring.partition("\n\n")[0].split())
    return in_cell(re.split(r"(?<=\.) (?=[A-Z`])", first)[0])


def in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def recipe_fields() -> str:
    """Return a page with every field of a recipe: its name, its default, its description."""
    parts = [
        f"# Recipe fields\n\nAll fields of a recipe. {MADE} [The recipe](recipe.md) explains them.\n",
        *field_tables(MODELS),
    ]
    parts.append(
        "## Steps on documents\n\n`documents` of a recipe or of a source is a list of steps, each with one of "
        f"{', '.join(f'`{kind}`' for kind in KINDS[:-1])} and "
        f"`{KINDS[-1]}`: [Rules](documents.md), [From the raw web](raw-web.md).\n"
    )
    return "\n".join(parts)


def mixture_fields() -> str:
    """Return a page with every field of a mixture."""
    head = f"# Mixture fields\n\nAll fields of a mixture. {MADE} [Mixtures](mixtures.md) explains them.\n"
    return "\n".join([head, *field_tables(MODELS_OF_MIXTURES)])


def experiment_fields() -> str:
    """Return a page with every field of an experiment."""
    head = (
        f"# Experiment fields\n\nAll fields of an experiment. {MADE} [Ablation](ablation.md) explains them.\n"
    )
    return "\n".join([head, *field_tables(MODELS_OF_EXPERIMENTS)])


def field_tables(models: dict[str, tuple[str, type[BaseModel]]]) -> Iterator[str]:
    """Yield a table of the fields of each model."""
    for title, (place, model) in models.items():
        about = in_cell((model.__doc__ or "").partition("\n\n")[0])
        rows = [field_row(name, field) for name, field in model.model_fields.items()]
        yield (
            f"## {title}\n\n{place}{about}\n\n| field | default | |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )


def field_row(name: str, field: FieldInfo) -> str:
    return f"| `{field.alias or name}` | {default_of(field)} | {in_cell(field.description or choices_of(field))} |"


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if (
        field.default_factory is not None
        or field.default in (None, (), "")
        or isinstance(field.default, tuple)
    ):
        return ""
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{value:g}`" if isinstance(value, float) else in_cell(f"`{value}`")


def choices_of(field: FieldInfo) -> str:
    """Return the values that a field without a description can have."""
    return ", ".join(f"`{value}`" for value in get_args(field.annotation) if isinstance(value, str))


def commands() -> str:
    """Return a page with the help of every command."""
    parts = [f"# Commands\n\n`zyda COMMAND --help` prints the same help. {MADE}\n"]
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        parameters = [parameter for parameter in command.params if getattr(parameter, "help", None)]
        arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
        words = [
            spelled(argument) if argument.required else f"[{spelled(argument)}]" for argument in arguments
        ]
        usage = " ".join(["zyda", name, *words, *(["[OPTIONS]"] if len(parameters) > len(words) else [])])
        parts.append(f"## zyda {name}\n\n{command.help}\n\n```\n{usage}\n```\n")
        if parameters:
            rows = [
                f"| `{spelled(parameter)}` | {default_value(parameter)} | {in_cell(parameter.help)} |"
                for parameter in parameters
            ]
            parts.append("| argument or option | default | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
        if command.epilog:
            parts.append("```\n" + "\n".join(command.epilog.splitlines()[1:]) + "\n```\n")
    return "\n".join(parts)


def spelled(parameter: Any) -> str:
    """Return an argument or an option in the form in which a user types it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return " ".join([", ".join(parameter.opts), *([parameter.metavar] if parameter.metavar else [])])


def default_value(parameter: Any) -> str:
    """Return the default of an option, or "required". Flags and optional values have none."""
    if parameter.required:
        return "required"
    default = getattr(parameter.default, "value", parameter.default)
    if default is None or default is False:
        return ""
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def limits_page() -> str:
    """Return a page with every bound of input from outside, section by section."""
    head = (
        "# Limits\n\nLimits of the size, depth and number of everything that a build or a mix reads. They "
        "bound the memory and time of a worker, whatever a file contains. The values are fixed: no field of a "
        "recipe changes them. Most are about ten times the largest value in many real inputs. They are defined "
        f"in `tasks/limits.py`. {MADE}\n\nWhat exceeds a limit of a file's content becomes a [bad row]"
        "(recipe.md#sources), unless the section or the last column states something else."
    )
    return "\n".join([head, *chain.from_iterable(map(limit_lines, dataclasses.fields(Limits)))]) + "\n"


def limit_lines(limit: dataclasses.Field[int]) -> Iterator[str]:
    """Yield the row of a bound, after the head of its section if the section begins with it."""
    about = limit.metadata
    if section := about["section"]:
        yield f"\n## {section.title}\n"
        if section.paragraph:
            yield f"{section.paragraph}\n"
        yield "| limit | maximum | applies to | beyond it |\n|---|---|---|---|"
    value = limit.default
    assert isinstance(value, int)
    maximum = in_bytes(value) if about["unit"] == "bytes" else f"{value:,} {about['unit']}".strip()
    yield f"| `{limit.name}` | {maximum} | {in_cell(about['applies_to'])} | {in_cell(about['beyond'])} |"


def in_bytes(value: int) -> str:
    """Return a size in the largest unit of which it is a multiple."""
    units = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB", 1: "bytes"}
    size = next(size for size in units if value % size == 0)
    return f"{value // size:,} {units[size]}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/map.md": module_map, "docs/recipe-fields.md": recipe_fields, "docs/limits.md": limits_page,
    "docs/mixture-fields.md": mixture_fields, "docs/experiment-fields.md": experiment_fields,
    "docs/commands.md": commands,
}  # fmt: skip

if __name__ == "__main__":
    for place, page in PAGES.items():
        (ROOT / place).write_text(page())

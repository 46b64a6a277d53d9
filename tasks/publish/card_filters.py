"""The sentences of the dataset card about filters and judges."""

from zyda_flows.tasks.recipe.fields import Recipe


def filters(recipe: Recipe) -> list[str]:
    """Return sentences about the documents that filters kept."""
    sentences = list[str]()
    for source in recipe.sources:
        for judge in recipe.judges_of(source.name):
            if judge.only_if:
                sentences.append(
                    f"Of {source.name}, judge {judge.name} judged documents with `{judge.only_if}`."
                )
            if judge.keep:
                sentences.append(f"Of {source.name}, documents with `{judge.keep}` were kept.")
        if source.classify and source.classify.keep:
            labels = ", ".join(source.classify.keep)
            sentences.append(f"Of {source.name}, documents with the quality label {labels} were kept.")
        if source.keep:
            sentences.append(f"Of {source.name}, documents with `{source.keep}` were kept.")
    return sentences

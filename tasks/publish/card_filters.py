"""The sentences of the dataset card about filters and judges."""

from zyda_flows.tasks.recipe.buckets import Bucket
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
    if recipe.bucket:
        sentences += bucket_sentences(recipe.bucket)
    return sentences


def bucket_sentences(bucket: Bucket) -> list[str]:
    """Return sentences about the buckets of documents."""
    scores = " and ".join(f"`{name}`" for name in bucket.of)
    several = "the largest of its buckets by " if bucket.of[1:] else "its bucket by "
    among = "each source" if bucket.within == "source" else "the corpus"
    sentences = [
        f"`{bucket.name}` of a document is {several}{scores}, of {bucket.count} buckets with equal "
        f"{bucket.weights} of {among}; bucket 0 has the lowest scores."
    ]
    return sentences + ([f"Documents with `{bucket.keep}` were kept."] if bucket.keep else [])

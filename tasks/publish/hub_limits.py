"""The limits of the Hugging Face hub for the number of files, and the folders of a corpus that exceed them."""

from collections.abc import Iterator, Mapping

MOST_FILES, MOST_IN_FOLDER = 100_000, 10_000  # huggingface.co/docs/hub/repositories-recommendations


def largest_folder(files: Mapping[str, int]) -> tuple[str, int]:
    """Return the folder with the most files and their number. files: the number of files of each folder."""
    return max(files.items(), key=lambda item: item[1], default=("", 0))


def excess(files: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each limit that a corpus exceeds. files: the number of files of each folder."""
    remedy = "make `published_mib` larger in the recipe"
    if (count := sum(files.values())) > MOST_FILES:
        yield (
            f"{count:,} files to publish: the Hugging Face hub recommends at most {MOST_FILES:,} in a repository; "
            f"{remedy}"
        )
    if (largest := largest_folder(files))[1] > MOST_IN_FOLDER:
        yield (
            f"{largest[1]:,} files to publish in {largest[0]}/: the Hugging Face hub recommends at most "
            f"{MOST_IN_FOLDER:,} in a folder; {remedy}"
        )

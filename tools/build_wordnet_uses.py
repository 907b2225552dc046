"""Make the table of how often WordNet's words are used, for `grue/metrics/data`, from WordNet 3.0's own files.

    apt-get install wordnet-base
    python tools/build_wordnet_uses.py /usr/share/wordnet grue/metrics/data

`wordnet_uses.txt.gz` comes out: a part of speech (n, v, a, r), a single-word lemma and how often its senses were
tagged in WordNet's semantic concordance texts, "n dog 42"; a lemma that never was has no line. It is sorted, so that
the same dictionary always gives the same bytes.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from build_wordnet import write

SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


def uses(dictionary: Path) -> Iterator[str]:
    """Yield a line for every lemma of one word and part of speech; the format of the source is cntlist(5WN)."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in (dictionary / "cntlist.rev").read_text("latin-1").splitlines():
        key, _, tagged = line.split(" ")
        lemma, _, sense = key.partition("%")
        if "_" not in lemma:
            counts[SENSE_TYPES[sense[0]], lemma] += int(tagged)
    return (f"{part} {lemma} {count}" for (part, lemma), count in counts.items())


def main(dictionary: Path, out: Path) -> None:
    """Write the table into the folder `out`."""
    write(out / "wordnet_uses.txt.gz", uses(dictionary))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

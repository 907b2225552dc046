"""Make the WordNet tables of `grue/metrics/data` from WordNet 3.0's own dictionary files.

    apt-get install wordnet-base
    python tools/build_wordnet.py /usr/share/wordnet grue/metrics/data

Two files come out, one record a line, both sorted, so that the same dictionary always gives the same bytes:

- `wordnet_synsets.txt.gz`: a part of speech (n, v, a, r) and the single-word lemmas of one synset, "n car auto …";
- `wordnet_exceptions.txt.gz`: a part of speech, an irregular form and its base forms, "v ran run".

Lemmas of several words are left out: no metric compares them with a word of a text.
"""

import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}


def synsets(dictionary: Path) -> Iterator[str]:
    """Yield a line for every synset that has a single-word lemma; the format of the source is wndb(5WN)."""
    for letter, name in PARTS_OF_SPEECH.items():
        for line in (dictionary / f"data.{name}").read_text("latin-1").splitlines():
            if line.startswith(" "):  # the licence at the head of the file
                continue
            fields = line.split(" ")
            lemmas = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            words = [lemma.split("(")[0] for lemma in lemmas if "_" not in lemma]  # "galore(ip)" names a position
            if words:
                yield " ".join([letter, *words])


def exceptions(dictionary: Path) -> Iterator[str]:
    """Yield a line for every irregular form of one word; where a form is listed twice, the later line holds."""
    for letter, name in PARTS_OF_SPEECH.items():
        lines = (dictionary / f"{name}.exc").read_text("latin-1").splitlines()
        bases = {form: words for form, *words in map(str.split, lines) if "_" not in form}
        for form, words in bases.items():
            yield " ".join([letter, form, *(word for word in words if "_" not in word)])


def write(path: Path, lines: Iterable[str]) -> None:
    """Write sorted lines to a gzip file that holds no time stamp."""
    text = "".join(f"{line}\n" for line in sorted(set(lines)))
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))


def main(dictionary: Path, out: Path) -> None:
    """Write both tables into the folder `out`."""
    write(out / "wordnet_synsets.txt.gz", synsets(dictionary))
    write(out / "wordnet_exceptions.txt.gz", exceptions(dictionary))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""WordNet as nltk reads it, from Debian's packages wordnet-base and wordnet-sense-index."""

import shutil
from pathlib import Path

import nltk
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader

DEBIAN = Path("/usr/share/wordnet")
# lexnames(5WN), which Debian leaves out: number, name, part of speech.
NOUNS = "Tops act animal artifact attribute body cognition communication event feeling food group location motive object person phenomenon plant possession process quantity relation shape state substance time"
VERBS = "body change cognition communication competition consumption contact creation emotion motion perception possession social stative weather"
NAMES = [
    *(("adj.all", 3), ("adj.pert", 3), ("adv.all", 4)),
    *((f"noun.{name}", 1) for name in NOUNS.split()),
    *((f"verb.{name}", 2) for name in VERBS.split()),
    ("adj.ppl", 3),
]


def load_wordnet(folder: Path) -> WordNetCorpusReader:
    """Lay WordNet out in `folder` as nltk wants it, and read it; skip the test where it is not installed."""
    if not (DEBIAN / "index.sense").exists():
        pytest.skip("needs WordNet: apt-get install wordnet-base wordnet-sense-index")
    root = folder / "corpora" / "wordnet"
    shutil.copytree(DEBIAN, root)
    lines = [f"{number:02}\t{name}\t{part}\n" for number, (name, part) in enumerate(NAMES)]
    (root / "lexnames").write_text("".join(lines))
    nltk.data.path.insert(0, str(folder))  # nltk reads no other place
    return WordNetCorpusReader(nltk.data.find("corpora/wordnet"), None)

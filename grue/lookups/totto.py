"""ToTTo without learning: sentences of similar tables, with the values of the prompt's table in their places.

A training sentence becomes a frame, with gaps for highlighted values and parts of the page's title. A
frame fits a table with the same headers and section, and with values of the same beginning or shape, since words
beside a value often depend on it. What the frame says beyond the prompt's cells is removed; what it lacks is added as
such values most often end a sentence. Pronouns follow those beside the first words of the values in training.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from grue.lookups.consensus import central
from grue.lookups.nearest import Lookup, counted, terms
from grue.lookups.retrieval import Index
from grue.metrics import facts
from grue.records import Example

FOUND, KEPT, LONGEST_ENDING = 200, 24, 7
CUT, ADDED, SAME_SECTION, SAME_START, SAME_SHAPE = 2.0, 2.5, 1.5, 0.5, 0.3
CELL = re.compile(r"\[cell\] (.*?) \[/cell\]")
MARK = re.compile(r"\[/?\w+\]")
GAP = re.compile(r"(<\d{1,9}:\w+>)")
SMALL = ("zero", "one", *facts.CARDINALS)
ORDINALS = ("zeroth", "first", *facts.ORDINALS)
HE_TO_SHE = {"he": "she", "his": "her", "him": "her", "actor": "actress", "He": "She", "His": "Her"}
SHE_TO_HE = {"she": "he", "her": "his", "actress": "actor", "She": "He", "Her": "His"}
VOWEL = re.compile(r"(?!uni|use|eur|one)[aeiou]|hour|honest", re.IGNORECASE)
DATE = re.compile(r"(\d{1,2}) ([A-Z]\w+)(?: \d{4})?|([A-Z]\w+) (\d{1,2})(?:, \d{4})?")


@dataclass(frozen=True, slots=True)
class HighlightedCell:
    """A highlighted cell of a prompt."""

    value: str
    header: str


@dataclass(frozen=True, slots=True)
class PromptTable:
    """The table of a prompt."""

    page: str
    section: str
    cells: tuple[HighlightedCell, ...]


@dataclass(frozen=True, slots=True)
class TableFrame:
    """A training sentence with gaps "<number of the cell:form of its value>", and its table."""

    text: str
    table: PromptTable


# --- prompts ---------------------------------------------------------------------------------------------------------


def read_prompt(prompt: str) -> PromptTable:
    """Return the table of a prompt of `grue.data.sets.totto`."""
    cells = []
    for content in CELL.findall(prompt):
        value, *headers = (part.strip() for part in MARK.split(content))
        cells.append(HighlightedCell(value, next(filter(None, headers), "")))
    return PromptTable(_between(prompt, "page_title"), _between(prompt, "section_title"), tuple(cells))


def _between(prompt: str, tag: str) -> str:
    match = re.search(rf"\[{tag}\] (.*?) \[/{tag}\]", prompt)
    return match[1] if match else ""


def _in_template(train: Sequence[Example], example: Example) -> str:
    """Return one sentence for all tables: "The ⟨header⟩ of ⟨title⟩ is ⟨value⟩ and ⟨value⟩."."""
    table = read_prompt(example.prompt)
    values = [cell.value for cell in table.cells]
    listed = " and ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)
    header = table.cells[0].header.lower() if table.cells else ""
    return f"The {header} of {table.page} is {listed}."


# --- the training split ----------------------------------------------------------------------------------------------


class TableMemory:
    """Counts over the training split.

    Attributes:
        frames: Its sentences with gaps.
        index: Their tables.
        endings: Section and header, or header alone → the ends of sentences with such a value.
        company: First word of a value → whether its sentences speak of "him", 1, or of "her", -1, on average.
    """

    def __init__(self, train: Sequence[Example]) -> None:
        self.frames = [_frame(read_prompt(each.prompt), each.references[0]) for each in train if each.references]
        self.index = Index([_features(frame.table) for frame in self.frames])
        self.endings: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        spoken_of: dict[str, Counter[str]] = defaultdict(Counter)
        for frame in self.frames:
            for header, ending in _endings(frame):
                self.endings[frame.table.section, header][ending] += 1
                self.endings[(header,)][ending] += 1
            spoken = set(terms(frame.text))
            kinds = [name for name, pronouns in (("him", HE_TO_SHE), ("her", SHE_TO_HE)) if spoken & pronouns.keys()]
            for value in (*(cell.value for cell in frame.table.cells), frame.table.page):
                spoken_of[value.split(" ")[0]].update(kinds)
        self.company = {word: (of["him"] - of["her"]) / (of.total() + 1) for word, of in spoken_of.items()}


def _endings(frame: TableFrame) -> Iterator[tuple[str, str]]:
    """Yield the header of the last gap's cell, and the end of the sentence with that gap as "<:form>"."""
    pieces = GAP.split(frame.text.removesuffix("."))
    if len(pieces) > 3 and len(f"{pieces[-3]} {pieces[-1]}".split()) <= LONGEST_ENDING:
        number, _, how = pieces[-2][1:-1].partition(":")
        yield frame.table.cells[int(number)].header, f"{pieces[-3]}<:{how}>{pieces[-1]}"


def _features(table: PromptTable) -> list[str]:
    features = [f"section {table.section}", *terms(table.page)]
    for cell in table.cells:
        start = cell.value.split(" ")[0]
        features += [f"header {cell.header}"] * 2
        features += [f"{cell.header} {start}", f"{cell.header} {_shape(cell.value)}"]
    return features


def _shape(value: str) -> str:
    """Return the shape of a value: of numbers their length and first digit, of words their case."""
    if re.match(r"\D?\d", value):
        return re.sub(r"(?<=\d)\d", "0", value[:2]) + str(len(value))
    return " ".join("A" if word[:1].isupper() else "a" for word in value.split(" "))


def _frame(table: PromptTable, text: str) -> TableFrame:
    """Return a sentence with gaps in the places of the cells' values, the longest first."""
    for number in sorted(range(len(table.cells)), key=lambda number: -len(table.cells[number].value)):
        for how, words in _ways(table.cells[number].value):
            pattern = rf"(?<![\w<:]){re.escape(words)}(?![\w>])"
            replaced, times = re.subn(pattern, f"<{number}:{how}>", text, count=1)
            if times:
                text = replaced
                break
    return TableFrame(text, table)


def _ways(value: str) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a sentence may have a value: the form's name, and the words."""
    yield "same", value
    if value:
        yield "lower", value[0].lower() + value[1:]
        yield "small", value.lower()
    if re.fullmatch(r"\d{1,18}", value) and int(value) < len(SMALL):
        yield "words", SMALL[int(value)]
        yield "no", "no" if value == "0" else "none"
        yield "ordinal", ORDINALS[int(value)]
        yield "Ordinal", ORDINALS[int(value)].capitalize()
    if date := DATE.match(value):
        day, month = date[1] or date[4], date[2] or date[3]
        yield "day", f"{day} {month}"
        yield "month", f"{month} {day}"
    if " " in value:
        yield "last", value.split(" ")[-1]


# --- mending ---------------------------------------------------------------------------------------------------------


def _mended(memory: TableMemory, example: Example) -> Iterator[str]:
    """Yield the filled-in sentences of the most similar tables, the best first; at least one."""
    table = read_prompt(example.prompt)
    hits = memory.index.nearest(_features(table), FOUND)
    ranked = sorted(((_fit(memory.frames[number].table, table) + 0.02 * score, -number) for number, score in hits))
    for _, number in ranked[: -KEPT - 1 : -1]:
        yield _fill(memory, memory.frames[-number], table)


def _partners(frame: PromptTable, table: PromptTable) -> dict[int, int]:
    """Return cell of a frame → cell of the prompt that replaces it: those under the same header, in order."""
    partners: dict[int, int] = {}
    rest = [*range(len(table.cells))]
    for number, cell in enumerate(frame.cells):
        free = [at for at in rest if table.cells[at].header == cell.header]
        if free:
            partners[number] = free[0]
            rest.remove(free[0])
    for number, cell in enumerate(frame.cells):  # other headers, but the same kind of value
        alike = [at for at in rest if _shape(table.cells[at].value) == _shape(cell.value)]
        if number not in partners and alike:
            partners[number] = alike[0]
            rest.remove(alike[0])
    return partners


def _fit(frame: PromptTable, table: PromptTable) -> float:
    """Return how well a frame of one table fits another; words beside similar values are more often right."""
    partners = _partners(frame, table)
    fit = SAME_SECTION * (frame.section == table.section)
    fit -= CUT * (len(frame.cells) - len(partners)) + ADDED * (len(table.cells) - len(partners))
    for number, at in partners.items():
        own, partner = frame.cells[number], table.cells[at]
        fit += (own.header == partner.header) + SAME_SHAPE * (_shape(own.value) == _shape(partner.value))
        fit += SAME_START * (own.value.split(" ")[0] == partner.value.split(" ")[0])
    return fit


def _fill(memory: TableMemory, frame: TableFrame, table: PromptTable) -> str:
    partners = _partners(frame.table, table)
    pieces = GAP.split(_with_title(frame.text, frame.table.page, table.page))
    written: list[str] = []
    for piece in pieces:
        gap = re.fullmatch(r"<(\d{1,9}):(\w+)>", piece)
        if not gap:
            written.append(piece)
        elif int(gap[1]) in partners:
            written.append(_say(table.cells[partners[int(gap[1])]].value, gap[2]))
        elif written:
            written[-1] = _without_last_words(written[-1])
    text = "".join(written).removesuffix(".").rstrip()
    for at in range(len(table.cells)):
        if at not in partners.values():
            text += _ending(memory, table, table.cells[at])
    text = _of_gender(re.sub(r" +", " ", text).replace(" ,", ","), memory, table)
    text = re.sub(r"\b([Aa])n? (?=(\w+))", lambda match: f"{match[1]}{'n' * bool(VOWEL.match(match[2]))} ", text)
    return f"{text[:1].upper()}{text[1:]}."


def _say(value: str, how: str) -> str:
    return dict(_ways(value)).get(how, value)


def _without_last_words(text: str) -> str:
    """Return the words before a gap without those that lead up to it: back to a comma, "and", or four words."""
    words = text.rstrip().split(" ")
    count = len(words)
    while count > 0 and len(words) - count < 4:
        count -= 1
        if words[count].endswith(",") or words[count] in ("and", "with", "by", "in", "for", "from", "at", "on"):
            break
    return " ".join(words[:count])


def _ending(memory: TableMemory, table: PromptTable, cell: HighlightedCell) -> str:
    """Return the words that most often add such a cell at the end of a training sentence."""
    often = memory.endings.get((table.section, cell.header)) or memory.endings.get((cell.header,))
    if not often:
        return f" and {cell.value}"
    ending = often.most_common(1)[0][0]
    words = re.sub(r"<:(\w+)>", lambda gap: _say(cell.value, gap[1]), ending)
    return words if words.startswith((" ", ",")) else f" {words}"


def _of_gender(text: str, memory: TableMemory, table: PromptTable) -> str:
    """Return a text with pronouns that suit the people of a table, as far as training tells."""
    firsts = [value.split(" ")[0] for value in (table.page, *(cell.value for cell in table.cells))]
    leaning = max((memory.company.get(first, 0) for first in firsts), key=abs)
    exchanged = SHE_TO_HE if leaning > 0 else HE_TO_SHE if leaning < 0 else {}
    return re.sub(r"\w+", lambda word: exchanged.get(word[0], word[0]), text)


def _with_title(text: str, old: str, new: str) -> str:
    """Return a sentence about one page for another: the differing parts of the title are replaced."""
    for before, after in _title_parts(old, new):
        words = before.split(" ")
        for size in range(len(words), 0, -1):
            part = " ".join(words[-size:])
            pieces = re.split(rf"(?<![\w<:]){re.escape(part)}(?![\w>:])", text)
            if len(pieces) > 1:
                text = after.join(pieces)
                break
    return text


def _title_parts(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the differing parts of two titles without what is in brackets, with years separately."""
    plain = [re.sub(r" \(.*?\)", "", title) for title in (old, new)]
    years = [re.findall(r"\b\d{4}\b", title) for title in plain]
    yield from zip(*years, strict=False)
    if " of " not in plain[0]:
        plain[1] = plain[1].rpartition(" of ")[2]
    before, after = ([word for word in title.split(" ") if not re.fullmatch(r"\d{4}", word)] for title in plain)
    for kind, start, end, from_, to in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "replace":
            yield " ".join(before[start:end]), " ".join(after[from_:to])


LOOKUPS: Mapping[str, Lookup] = {
    "nearest": counted(TableMemory, lambda memory, example: next(_mended(memory, example))),
    "template": counted(lambda train: train, _in_template),
    "mbr": counted(TableMemory, lambda memory, example: central([*_mended(memory, example)])),
}

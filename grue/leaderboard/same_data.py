"""Keep results on one board, and in one mean, only if they were scored on the same examples."""

from collections import Counter
from collections.abc import Mapping, Sequence

from grue.leaderboard.entries import row_key
from grue.records import Entry, other_examples

Hashes = Mapping[str, str]


def on_the_same_data(
    entries: Sequence[Entry], on_board: Mapping[str, Hashes]
) -> tuple[list[Entry], list[tuple[Entry, str]], dict[str, Hashes]]:
    """Split results of the current tasks by the examples that they were scored on.

    The examples of a task are those of the package's rows, or else those of most submitted results, or else of most
    local ones. For results on a part of a split, only the seeds of a row must agree.

    Args:
        entries: Results, in the order of `grue.leaderboard.entries.of_suite`.
        on_board: Task → the hashes of the examples of the package's rows.

    Returns:
        The results on these examples; the others, each with the reason that it is left out; and task → its hashes.
    """
    groups: dict[tuple[str, object], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.result.task, entry.result.limited and row_key(entry)), []).append(entry)
    out: dict[int, str] = {}
    data: dict[str, Hashes] = {}
    for (task, part), group in groups.items():
        hashes = {} if part else dict(on_board.get(task, {}))
        for deciding in ([entry for entry in group if entry.status != "local"], group):
            for key in ("references", "examples"):  # those that fit the first decide the second
                fitting = [entry.result.hashes for entry in deciding if not other_examples(entry.result.hashes, hashes)]
                counts = Counter(hashes_of_entry[key] for hashes_of_entry in fitting if key in hashes_of_entry)
                for common, _ in counts.most_common(1):
                    hashes.setdefault(key, common)
        for entry in group:
            if difference := other_examples(entry.result.hashes, hashes):
                cure = "`data` in each result says from where; one version of the data is to be used for all"
                out[id(entry)] = f"on other examples than the others ({difference}; {cure})"
        if not part:
            data[task] = hashes
    fitting_entries = [entry for entry in entries if id(entry) not in out]
    return fitting_entries, [(entry, out[id(entry)]) for entry in entries if id(entry) in out], {**on_board, **data}

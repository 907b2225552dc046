"""Make a human evaluation of systems' texts, and analyse its answers."""

from collections.abc import Callable, Sequence
from pathlib import Path

from grue.api.examples import AnyTask, as_task, examples, refuse_text
from grue.errors import ConfigError
from grue.records import check_number, check_seed
from grue.render.questionnaire import publish
from grue.study.analysis import StudyAnalysis, analyse
from grue.study.answers import answer_files, read_answers
from grue.study.design import design, draw_items
from grue.study.key import Key, read_key
from grue.study.outputs import read_outputs
from grue.study.template import Kind, find_template


def make_study(
    output: str | Path,
    task: AnyTask,
    systems: Sequence[str],
    *,
    items: int = 50,
    annotators: int = 3,
    template: str | None = None,
    kind: Kind | None = None,
    seed: int = 0,
    suite: str = "mini",
    runs: str | Path = "runs",
    submissions: str | Path = "submissions",
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Key:
    """Write the pages on which people judge systems' texts, and their key, as `grue tools study make` does.

    Args:
        output: A new folder: `pages/` goes to the annotators, `key.json` stays with you.
        systems: Names as for `compare`, with "@SEED" for one seed, or "NAME=FILE" for predictions.
        items: How many examples of the evaluation split.
        annotators: How many people; everybody judges everything.
        template: A questionnaire by its name, or the path of a file. [default: the one of the task and kind]
        kind: "scales", to rate texts one by one, or "pairs", to choose between two. [default: the template's]
        seed: Of the draws of items and orders.
        progress: Called with (done, total) systems.

    Raises:
        ConfigError, UnknownName: An argument is invalid, or the folder is not empty.
        DataError: A system's texts, or the data, are not available.
        SubmissionError: A system has not one text for each example.
    """
    refuse_text(systems=systems)
    of_task, folder = as_task(task, suite), Path(output)
    questionnaire = find_template(template, kind, of_task.name, len(systems))
    items, annotators, seed = check_number("items", items), check_number("annotators", annotators), check_seed(seed)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there already, perhaps with a study's answers; name a new folder with -o.")
    loaded = examples(of_task, data_dir=data_dir, offline=offline)
    places = draw_items(len(loaded), items, seed)
    outputs = read_outputs(systems, of_task, loaded, places, Path(submissions), Path(runs), progress)
    key = design(of_task, [loaded[place] for place in places], outputs, questionnaire, annotators, seed)
    publish(key, folder)
    return key


def analyse_study(
    folder: str | Path,
    answers: Sequence[str | Path] = (),
    *,
    draws: int = 2000,
    seed: int = 0,
    complete: bool = False,
) -> StudyAnalysis:
    """Analyse the answers to a study, as `grue tools study analyse` does.

    Args:
        folder: The folder that `make_study` wrote.
        answers: Files that people saved. [default: those in the folder's `answers/`]
        draws: Of each bootstrap and test.
        seed: Of those draws.
        complete: Refuse answers that are not complete.

    Raises:
        DataError: There are no answers; or key or answers are damaged, contradictory, or do not belong together.
    """
    refuse_text(answers=answers)
    draws, seed = check_number("draws", draws), check_seed(seed)
    key = read_key(Path(folder))
    paths = [Path(path) for path in answers] or answer_files(Path(folder))
    return analyse(key, read_answers(paths, key), draws=draws, seed=seed, complete=complete)

"""The table of experiments/learning.py, on results made by hand."""

from dataclasses import replace

import pytest
from support import factories
from support.late import late

from grue import files

learning, stats = late("learning"), late("scipy.stats")


def written(folder, system, seed, preference, **made):
    """What an evaluated run leaves: four updates, validated before, after two and after four."""
    run = folder / f"mini/imdb/{system}/seed-{seed}"
    result = factories.a_result(factories.a_task("imdb"), system, seed, preference)
    files.write_json(run / "result.json", replace(result, system={"name": system, **made}))
    lines = [
        {
            "update": n,
            "seconds": 30.0,
            "reward_calls": 400.0,
            "objective/penalised_reward": 0.25 * n,
            "critic/explained_variance": 0.1 * n,
        }
        for n in range(1, 5)
    ]
    validations = [{"update": n, "validation/sampled_reward": 0.5 + 0.1 * n} for n in (0, 2, 4)]
    files.append_jsonl(run / "train.jsonl", [*lines, *validations])


def test_gains_are_of_pairs_and_the_log_is_read_in_quarters(tmp_path, monkeypatch, capsys):
    gains = (3.0, 4.0, 6.5)
    for seed, gain in enumerate(gains, start=1):
        written(tmp_path, "supervised", seed, 40.0 + seed, validation={}, weights=f"sha{seed}")
        made = {"weights": f"ppo{seed}", "start": f"sha{seed}", "update": 2, "validation": {"kl": 0.5 * seed}}
        written(tmp_path, "supervised+ppo", seed, 40.0 + seed + gain, **made)
    monkeypatch.setattr("sys.argv", ["learning.py", "--runs", str(tmp_path)])
    learning.main()
    _, _, before, after = capsys.readouterr().out.splitlines()
    assert before == "| imdb | `supervised` | 42.0 | 50.0 |  |  |  |  |  |  |  |  |  | 2.0 |"
    half = stats.t.ppf(0.975, 2) * stats.tstd(gains) / 3**0.5
    cells = "| imdb | `supervised+ppo` | 46.5 | 50.0 | {} | 1.00 | 0.500 → 0.700 | 0.900 | 0.250 → 1.000 | 0.35 |  | 2 2 2 | 1,600 | 2.0 |"
    assert after == cells.format(f"**+4.5 ± {half:.1f}**")  # ± 4.48: above 0


def results(scores, **made):
    found = [factories.a_result(factories.a_task("imdb"), "one", seed, value) for seed, value in enumerate(scores)]
    lines = [{key: f"{value}{one.seed}" for key, value in made.items()} for one in found]
    return [replace(one, system={"name": "one", **line}) for one, line in zip(found, lines, strict=True)]


@pytest.mark.parametrize(("gains", "said"), [((1.0, 1.1, 0.9), "**+1.0 ± 0.2**"), ((2.0,), "+2.0"), ((), "")])
def test_a_gain_is_bold_where_its_interval_excludes_0(gains, said):
    base = (40.0, 44.0, 52.0)[: len(gains)]
    after = [one + gain for one, gain in zip(base, gains, strict=True)]
    assert learning.gain(results(after, weights="b", start="a"), results(base, weights="a")) == said


def test_seeds_that_share_no_start_are_not_paired():
    base, after = (40.0, 44.0, 52.0), (41.0, 45.1, 52.9)
    half = stats.ttest_ind(after, base, equal_var=False).confidence_interval()
    said = learning.gain(results(after, weights="b"), results(base, weights="a"))
    assert said == f"+1.0 ± {(half.high - half.low) / 2:.1f}"

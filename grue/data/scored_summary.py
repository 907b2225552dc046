"""The summary of a file of scored responses."""

from dataclasses import dataclass
from statistics import fmean, pstdev

from grue.data.scored import ScoredBudget, ScoredData
from grue.data.scored_lines import Header


@dataclass(frozen=True, slots=True)
class RewardSummary:
    """The rewards of a file.

    Attributes:
        spread: Standard deviation of all of them.
        within: Mean over groups of their standard deviation, the spread that learning from groups can use.
    """

    mean: float
    spread: float
    least: float
    most: float
    within: float


@dataclass(frozen=True, slots=True)
class ScoredSummary:
    """The summary of a file of scored responses.

    Attributes:
        form: "rewards", "pairs" or "rankings".
        groups: Number of lines.
        repeated: Number of responses equal to an earlier one of their group.
        flat: Share of the groups whose scores are all equal.
        words: Mean and largest number of words of a response.
        rewards: None if the file has only an order.
        contradictions: Pairs of texts that were judged both ways.
    """

    form: str
    prompts: int
    groups: int
    responses: int
    empty: int
    repeated: int
    flat: float
    words: tuple[float, int]
    rewards: RewardSummary | None
    sha256: str
    made: Header | None
    budget: ScoredBudget
    contradictions: int = 0
    held_out: int = 0


def summarise(data: ScoredData) -> ScoredSummary:
    """Return the summary of a file."""
    groups = data.groups
    texts = [text for group in groups for text in group.texts]
    scores = [score for group in groups for score in group.scores]
    lengths = [len(text.split()) for text in texts]
    ordered = "pairs" if all(len(group.texts) == 2 for group in groups) else "rankings"
    return ScoredSummary(
        form="rewards" if data.rewards else ordered,
        prompts=len({group.example.id for group in groups}),
        groups=len(groups),
        responses=len(texts),
        empty=sum(not text.strip() for text in texts),
        repeated=sum(len(group.texts) - len(set(group.texts)) for group in groups),
        flat=sum(len(set(group.scores)) == 1 for group in groups) / len(groups),
        words=(fmean(lengths), max(lengths)),
        rewards=RewardSummary(
            mean=fmean(scores),
            spread=pstdev(scores),
            least=min(scores),
            most=max(scores),
            within=fmean(pstdev(group.scores) for group in groups),
        )
        if data.rewards
        else None,
        sha256=data.sha256,
        made=data.made,
        budget=data.budget,
        contradictions=0 if data.rewards else data.contradictions,
        held_out=len(groups) - len(data.learned),
    )

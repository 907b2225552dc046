"""The figures of a run's log: what each means, and which algorithms log it.

`tools/algorithms_page.py` prints this; `tests/runs/test_figures.py` trains every algorithm and compares.
"""

from dataclasses import dataclass

from grue.algorithms.cards.grpo import GRPOConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig, RolloutConfig, ScoredConfig
from grue.runs.algorithms import find_card


@dataclass(frozen=True, slots=True)
class LoggedFigure:
    """A figure of `train.jsonl`.

    Attributes:
        name: Its key; NAME stands for any name.
        by: Which algorithms log it: settings classes, with the ones that extend them, and names.
        but: Algorithms among them that do not.
        setting: The setting that turns it on; empty if it is always logged. Not logged where that has no effect.
    """

    name: str
    meaning: str
    by: tuple[type[Common] | str, ...]
    but: tuple[str, ...] = ()
    setting: str = ""


RUN = (
    LoggedFigure("update", "How many updates are done.", (Common,)),
    LoggedFigure("of", "How many there will be.", (Common,)),
    LoggedFigure("seconds", "Of this update, without validation and saving.", (Common,)),
    LoggedFigure(
        "tokens",
        "Tokens of the update's responses, those that nothing is learnt from included; supervised, of its references.",
        (Common,),
    ),
    LoggedFigure("episodes", "Sequences that were read or drawn.", (Common,)),
    LoggedFigure("prompts", "Prompts that responses were drawn to, or pairs that were read.", (Common,)),
    LoggedFigure("generated_tokens", "Tokens that were drawn, those that were drawn again included.", (Common,)),
    LoggedFigure("reward_calls", "Texts that the reward scored.", (Common,)),
    LoggedFigure("steps", "Optimiser steps; TRPO's step of the policy is one.", (Common,)),
    LoggedFigure("policy/learning_rate", "Where the schedule is.", (Common,)),
    LoggedFigure(
        "validation/preference",
        "Of the answers to the validation examples, drawn as `validate_on` says; 0–100.",
        (Common,),
    ),
    LoggedFigure("validation/naturalness", "The same for the task's metrics of naturalness, if it has any.", (Common,)),
    LoggedFigure("validation/reward", "Mean reward of the same responses.", (Common,)),
    LoggedFigure(
        "validation/error",
        "Standard error over examples of what checkpoints are compared by: the preference, or the reward without one.",
        (Common,),
    ),
    LoggedFigure("validation/gain", "What they are compared by, less the start's.", (Common,)),
    LoggedFigure("validation/gain_error", "Standard error of the gain, paired by example.", (Common,)),
    LoggedFigure("validation/reward/NAME", "One term of a reward that is a sum, not weighted.", (Common,)),
    LoggedFigure(
        "validation/kl",
        "KL of the policy from its start in nats a response, over the whole vocabulary, at temperature 1.",
        (RewardedConfig,),
    ),
    LoggedFigure(
        "validation/sampled_reward", "Mean reward of the samples that `validation/kl` is from.", (RewardedConfig,)
    ),
    LoggedFigure("validation/sampled_reward/NAME", "One term of it, if it is a sum, not weighted.", (RewardedConfig,)),
)
"""What the run logs around an algorithm: counts of every update, and validations."""

OF_UPDATES = (
    LoggedFigure(
        "objective/reward",
        "Mean reward of the responses, before penalties, scaling and clipping.",
        (RewardedConfig,),
    ),
    LoggedFigure("objective/reward_sd", "Standard deviation of the same over the responses.", (RewardedConfig,)),
    LoggedFigure("reward/NAME", "Mean of one term of a reward that is a sum, not weighted.", (RewardedConfig,)),
    LoggedFigure(
        "objective/scored",
        "Share of the responses that the reward applies to; logged where that is not all of them.",
        (RewardedConfig,),
    ),
    LoggedFigure(
        "objective/penalised_reward",
        "Mean of what a response is worth: its score with all penalties, that for the KL included. GRPO learns from "
        "the score, and has the KL in its loss.",
        (GRPOConfig,),
    ),
    LoggedFigure(
        "objective/penalised_reward",
        "Mean of what a response is worth: its score with all penalties, that for the KL included.",
        (RolloutConfig,),
        but=("grpo",),
    ),
    LoggedFigure(
        "objective/length", "Mean length of the responses in tokens, the end token included.", (RewardedConfig,)
    ),
    LoggedFigure("objective/ended", "Share of the responses that ended before the length limit.", (RewardedConfig,)),
    LoggedFigure(
        "objective/flat_groups",
        "Share of the groups whose scores are all equal: they say nothing about which response is better.",
        (ScoredConfig, GRPOConfig),
    ),
    LoggedFigure(
        "objective/used",
        "Share of the responses that are worth more than 0, and so may be learnt.",
        ("alol",),
    ),
    LoggedFigure(
        "objective/kl",
        "Mean over tokens of log π/π_0, as the penalty takes it (`kl_over`), in nats.",
        (RolloutConfig,),
    ),
    LoggedFigure("objective/kl_k3", "The same by the estimator k3, which is never negative.", (RolloutConfig,)),
    LoggedFigure("objective/kl_vocabulary", "As `objective/kl`, over the whole vocabulary.", (RolloutConfig,)),
    LoggedFigure("objective/kl_sequence", "As `objective/kl`, the mean over responses of its sum.", (RolloutConfig,)),
    LoggedFigure("objective/kl_coefficient", "β in this update.", (RolloutConfig,)),
    LoggedFigure(
        "objective/entropy",
        "Mean entropy of a token over what the sampler could draw, in nats.",
        (RolloutConfig,),
    ),
    LoggedFigure(
        "loss/total",
        "What is minimised: the mean over an update's steps, each before its step.",
        (Common,),
        but=("trpo", "es"),
    ),
    LoggedFigure(
        "loss/policy",
        "The policy's part of the loss, without entropy, critic and what keeps it near the start.",
        (RolloutConfig,),
    ),
    LoggedFigure("loss/value", "The critic's mean loss, before its coefficient.", (ActorCriticConfig,)),
    LoggedFigure(
        "loss/supervised",
        "Mean negative log-likelihood of the references' tokens, times its coefficient.",
        (RewardedConfig,),
        setting="supervised_coefficient",
    ),
    LoggedFigure(
        "critic/explained_variance",
        "Share of the returns' variance that the critic explained before it learnt from them; below 0 it is worse than "
        "a constant.",
        (ActorCriticConfig,),
    ),
    LoggedFigure(
        "critic/explained_variance",
        "Share of the variance of the initial policy's rewards that V_0 explains, on prompts that it was not fitted "
        "to; logged once, by the first update.",
        ("alol",),
    ),
    LoggedFigure(
        "policy/approx_kl",
        "KL(sampled‖learning) of the two policies by k3, a mean over tokens and steps.",
        (PPOConfig, GRPOConfig, ReinforceConfig, "mdpo"),
    ),
    LoggedFigure(
        "policy/clip_fraction",
        'Share of the tokens whose ratio lies outside the clip range; with `ratio_of = "responses"`, of responses.',
        (GRPOConfig,),
    ),
    LoggedFigure(
        "policy/clip_fraction",
        "Share of the tokens whose ratio lies outside the clip range.",
        (PPOConfig, ReinforceConfig),
    ),
    LoggedFigure(
        "policy/ratio_error",
        "Largest |ratio − 1| in the first minibatch: rounding, or dropout. 0 in bfloat16, where scoring reads what "
        "learning reads.",
        (RolloutConfig,),
    ),
    LoggedFigure("policy/ratio_error_mean", "Mean |ratio − 1| in the first minibatch.", (RolloutConfig,)),
    LoggedFigure(
        "policy/mismatch",
        "Mean |log π − log π_sampler| of a token in the first minibatch, before the first step: how far the pass that "
        "learns is from the sampler. About 1e-6 in float32, .03 in bfloat16.",
        (RolloutConfig,),
    ),
    LoggedFigure("policy/mismatch_max", "The largest of the same.", (RolloutConfig,)),
    LoggedFigure(
        "policy/mismatch_kl", "KL(sampler‖π) of the same two, by k3, a mean over tokens, in nats.", (RolloutConfig,)
    ),
    LoggedFigure(
        "policy/reference_kl",
        "The penalty's estimate of the KL from the reference in the loss, before β.",
        ("grpo",),
    ),
    LoggedFigure("policy/step_size", "t of this update.", ("mdpo",)),
    LoggedFigure("policy/step_size", "Norm of the policy's step; 0 where the line search found none.", ("trpo",)),
    LoggedFigure("policy/kl_after", "Mean KL of a token between the policy before and after the step.", ("trpo",)),
    LoggedFigure("policy/line_search_steps", "Steps that the line search tried.", ("trpo",)),
    LoggedFigure("policy/cg_residual", "Norm of what the conjugate gradient left over.", ("trpo",)),
    LoggedFigure(
        "policy/pair_gap",
        "Mean over pairs of log π/π_0 of the better response less that of the worse one.",
        ("dpo", "copg"),
    ),
    LoggedFigure("policy/pair_accuracy", "Share of the pairs in which that is above 0.", ("dpo", "copg")),
    LoggedFigure("policy/log_ratio", "Mean log π/π_0 of the responses that are learnt.", ("alol",)),
    LoggedFigure("policy/ranking_loss", "The ranking's part of the loss.", ("pro",)),
    LoggedFigure("policy/best_loss", "Negative log-likelihood of the best response, before its coefficient.", ("pro",)),
    LoggedFigure("policy/pair_loss", "The pair's part of the loss.", ("tpo",)),
    LoggedFigure("policy/supervised_loss", "The reference's mean negative log-likelihood, before α.", ("tpo",)),
    LoggedFigure("policy/grad_norm", "Norm of the gradient of the surrogate.", ("trpo",)),
    LoggedFigure("policy/grad_norm", "Norm of the gradient before clipping.", (Common,), but=("trpo",)),
    LoggedFigure(
        "policy/steps",
        "Optimiser steps of this update: fewer where `stop_kl` ended it, or a minibatch had no gradient.",
        (RolloutConfig,),
        but=("trpo",),
    ),
    LoggedFigure(
        "policy/steps",
        "Optimiser steps of this update: 0 where no group had anything to teach.",
        (ScoredConfig,),
    ),
    LoggedFigure("policy/steps", "1, or 0 where no pair of members differs.", ("es",)),
    LoggedFigure("es/fitness_sd", "Standard deviation of the members' fitness.", ("es",)),
    LoggedFigure("es/tied", "Share of the members whose fitness another member has, too.", ("es",)),
    LoggedFigure(
        "mask/size",
        "Mean share of the vocabulary that the sampler could draw from.",
        (RewardedConfig,),
    ),
    LoggedFigure("mask/mass", "Mean probability of the policy inside what it could draw from.", (RolloutConfig,)),
    LoggedFigure("mask/age", "Updates since the masking policy was the policy.", (RewardedConfig,), setting="mask"),
    LoggedFigure(
        "mask/disagreement",
        "Share of the tokens whose mask leaves out the policy's likeliest token.",
        (RewardedConfig,),
        setting="mask",
    ),
)
"""What an algorithm returns from an update."""


def figures_of(algorithm: str, among: tuple[LoggedFigure, ...] = (*RUN, *OF_UPDATES)) -> dict[str, LoggedFigure]:
    """Return the figures that an algorithm logs, some only under some settings, by name.

    Raises:
        UnknownName: There is no algorithm of that name.
    """
    card = find_card(algorithm)
    return {
        figure.name: figure
        for figure in among
        if algorithm not in figure.but
        and figure.setting not in card.without_effect
        and any(
            issubclass(card.settings, logger) if isinstance(logger, type) else logger == algorithm
            for logger in figure.by
        )
    }

"""TRL's GRPO or RLOO as one side of the trainer's benchmark; runs in an environment of its own, as TRL's PPO does."""

import os
import tempfile
from importlib.metadata import version
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRL_EXPERIMENTAL_SILENCE="1")

import torch
from datasets import Dataset
from setting import Peer, Setting, make_model, make_tokenizer, prompts, read_setting
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

STEPS = 10**6  # more than are ever asked for


class Turns(TrainerCallback):
    """Makes TRL's loop wait for the driver after all steps on one batch of rollouts.

    Args:
        peer: The driver.
        steps: Optimiser steps on a batch.
    """

    def __init__(self, peer: Peer, steps: int) -> None:
        self.peer = peer
        self.steps = steps

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Say that all is ready."""
        self.peer.tell(ready=True, versions={name: version(name) for name in ("trl", "torch", "transformers")})
        self.peer.wait()

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Answer after the last step, and wait for the next turn."""
        if state.global_step % self.steps == 0:
            self.peer.mark("update")
            self.peer.done()
            self.peer.wait()


def note_phases(trainer: GRPOTrainer | RLOOTrainer, peer: Peer) -> None:
    """Have TRL note the end of generation, and that of scoring."""
    generate, score = trainer._generate, trainer._generate_and_score_completions

    def generating(*args: Any, **kwargs: Any) -> Any:
        result = generate(*args, **kwargs)
        peer.mark("generation")
        return result

    def scoring(*args: Any, **kwargs: Any) -> Any:
        result = score(*args, **kwargs)
        peer.mark("scoring")
        return result

    trainer._generate, trainer._generate_and_score_completions = generating, scoring


def share_of_sevenths(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Return the reward: the share of tokens whose number 7 divides."""
    return [sum(token % 7 == 0 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def make_trainer(setting: Setting, peer: Peer, folder: str) -> GRPOTrainer | RLOOTrainer:
    """Return TRL's trainer in the setting; what is not named is as TRL has it."""
    shared = {
        "output_dir": folder,
        "per_device_train_batch_size": setting.rollouts // setting.minibatches,
        "steps_per_generation": setting.minibatches,
        "num_iterations": setting.epochs,
        "num_generations": setting.options["samples_per_prompt"],
        "max_completion_length": setting.response,
        "beta": setting.options["kl_coefficient"],
        "temperature": 1.0,
        "learning_rate": 1e-6,
        "max_steps": STEPS,
        "gradient_checkpointing": False,  # TRL's default recomputes the forward pass to save memory
        "bf16": setting.precision == "bfloat16",
        "logging_steps": setting.epochs * setting.minibatches,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": setting.device == "cpu",
    }
    make_model(setting).save_pretrained(folder)  # TRL loads the reference from where the policy came from
    policy = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    tokenizer = make_tokenizer(setting)
    tokenizer.padding_side = "left"
    arguments = {
        "model": policy,
        "reward_funcs": share_of_sevenths,
        "processing_class": tokenizer,
        "train_dataset": Dataset.from_dict(
            {"prompt": [" ".join(f"w{token}" for token in tokens) for tokens in prompts(setting)]}
        ),
        "callbacks": [Turns(peer, setting.epochs * setting.minibatches)],
    }
    trainer: GRPOTrainer | RLOOTrainer
    if setting.algorithm == "grpo":
        trainer = GRPOTrainer(args=GRPOConfig(loss_type="grpo", **shared), **arguments)
    else:
        trainer = RLOOTrainer(args=RLOOConfig(**shared), **arguments)
    assert {p.dtype for p in (*trainer.model.parameters(), *trainer.ref_model.parameters())} == {torch.float32}
    trainer.remove_callback(PrinterCallback)
    note_phases(trainer, peer)
    return trainer


def main() -> None:
    """Build the trainer and take turns until the driver stops asking."""
    setting = read_setting()
    peer = Peer(setting)
    with tempfile.TemporaryDirectory() as folder:
        make_trainer(setting, peer, folder).train()


if __name__ == "__main__":
    main()

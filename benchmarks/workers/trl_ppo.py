"""TRL's PPO as one side of the trainer's benchmark; runs in an environment of its own, see `benchmarks/trainer.py`."""

import copy
import os
import tempfile
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRL_EXPERIMENTAL_SILENCE="1")

from datasets import Dataset
from setting import Peer, Setting, make_model, make_tokenizer, prompts, read_setting
from torch import Tensor, nn
from transformers import GPT2ForSequenceClassification, PrinterCallback, TrainerCallback
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

EPISODES = 10**6  # more than is ever asked for


class ShareOfSevenths(nn.Module):
    """The reward, in the shape of a model that TRL asks for: the share of tokens whose number 7 divides."""

    base_model_prefix = "backbone"

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start

    def backbone(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        """Pass the tokens on as the states that are scored."""
        return SimpleNamespace(hidden_states=[input_ids])

    def score(self, ids: Tensor) -> Tensor:
        """Return the share at every position [B, L, 1]; TRL reads the last."""
        share = (ids[:, self.start :] % 7 == 0).float().mean(1)
        return share[:, None, None].expand(*ids.shape, 1)


class Turns(TrainerCallback):
    """Makes TRL's loop wait for the driver between two iterations."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Say that all is ready."""
        self.peer.tell(ready=True, versions={name: version(name) for name in ("trl", "torch", "transformers")})
        self.peer.wait()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Answer, and wait for the next turn."""
        self.peer.mark("update")
        self.peer.done()
        self.peer.wait()


def note_phases(peer: Peer) -> None:
    """Have TRL note the end of generation, and that of scoring: whitening the advantages is its last step."""
    generate, whiten = ppo_trainer.batch_generation, ppo_trainer.masked_whiten

    def generating(*args: Any, **kwargs: Any) -> Any:
        result = generate(*args, **kwargs)
        peer.mark("generation")
        return result

    def whitening(*args: Any, **kwargs: Any) -> Any:
        result = whiten(*args, **kwargs)
        peer.mark("scoring")
        return result

    ppo_trainer.batch_generation, ppo_trainer.masked_whiten = generating, whitening


def value_model(policy: nn.Module) -> GPT2ForSequenceClassification:
    """Return a critic that starts from the policy's trunk."""
    model = GPT2ForSequenceClassification(copy.deepcopy(policy.config))
    model.config.num_labels = 1
    model.transformer.load_state_dict(policy.transformer.state_dict())
    model.score = nn.Linear(policy.config.n_embd, 1, bias=False)
    nn.init.zeros_(model.score.weight)
    return model


def make_trainer(setting: Setting, peer: Peer, folder: str) -> PPOTrainer:
    """Return TRL's trainer in the setting."""
    accumulation = (
        setting.rollouts // setting.minibatches // min(setting.micro_batch, setting.rollouts // setting.minibatches)
    )
    config = PPOConfig(
        output_dir=folder,
        per_device_train_batch_size=setting.rollouts // accumulation,
        gradient_accumulation_steps=accumulation,
        num_mini_batches=setting.minibatches,
        local_rollout_forward_batch_size=setting.rollouts,
        num_ppo_epochs=setting.epochs,
        total_episodes=EPISODES,
        response_length=setting.response,
        temperature=1.0,
        learning_rate=1e-6,
        gamma=0.99,
        vf_coef=0.5,
        kl_coef=0.1,
        num_sample_generations=0,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=setting.device == "cpu",
        bf16=setting.precision == "bfloat16",
        gradient_checkpointing=False,
    )
    policy = make_model(setting)
    data = Dataset.from_dict({"input_ids": prompts(setting)})
    trainer = PPOTrainer(
        args=config,
        processing_class=make_tokenizer(setting),
        model=policy,
        ref_model=copy.deepcopy(policy),
        reward_model=ShareOfSevenths(setting.prompt),
        value_model=value_model(policy),
        train_dataset=data,
        eval_dataset=data,
        callbacks=[Turns(peer)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def main() -> None:
    """Build the trainer and take turns until the driver stops asking."""
    setting = read_setting()
    peer = Peer(setting)
    note_phases(peer)
    with tempfile.TemporaryDirectory() as folder:
        make_trainer(setting, peer, folder).train()


if __name__ == "__main__":
    main()

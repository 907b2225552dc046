"""Tiny random BERT-type models in folders, whose answers are far from uniform, and odd texts to give them."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

WINDOW = 40
PAD, CLS, SEP = 0, 1, 2
CORPUS = "the film is slow but the music is lovely and the end is a surprise . I liked it very much indeed ."
SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
SHAPE |= {"max_position_embeddings": WINDOW}
ODD = [".", "a\r\nb\n\nc", "a\x00b\x07", "größe café 東京", "\u2028a\u0085b", "🙂🙂", "שלום", "\ud800 the film"]
ODD += ["film \udfff", "x" * 300]
BLANK = ["", " ", "\n\t", "\u2028"]


def tokenizer(special=True, **settings):
    """Pieces of bytes, `special` between [CLS] and [SEP]; a pair is [CLS] first [SEP] second [SEP]."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    signs, alphabet = ["[PAD]", "[CLS]", "[SEP]"], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=signs, initial_alphabet=alphabet)
    inner.train_from_iterator([CORPUS], trainer)
    if special:
        pair, places = "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", CLS), ("[SEP]", SEP)]
        inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=places)
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "model_max_length": WINDOW}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **(names | settings))


def save(folder, model, **settings):
    """Spread the model's weights, save it with its tokenizer, and return (path, model, tokenizer)."""
    made = tokenizer(**settings)
    for parameter in model.parameters():
        parameter.data.mul_(8 if parameter.dim() == 2 else 1)
    model.save_pretrained(folder)
    made.save_pretrained(folder)
    return str(folder), model.eval(), made


def config(kind=BertConfig, **settings):
    return kind(**({"vocab_size": len(tokenizer()), "pad_token_id": PAD} | SHAPE | settings))


def encoder(folder, seed=5):
    torch.manual_seed(seed)
    return save(folder, BertModel(config(), add_pooling_layer=False))


def classifier(folder, labels, seed=7):
    torch.manual_seed(seed)
    model = BertForSequenceClassification(config(num_labels=labels))
    for layer in model.bert.encoder.layer:
        layer.attention.output.dense.weight.data.mul_(4)  # else what opens a text hardly sees the rest of it
    model.classifier.weight.data.mul_(4)
    return save(folder, model)


def damage(folder, model, tokenizer):
    """Save a copy of the model whose output is NaN, although its weights are finite: their sums are not."""
    state = {name: torch.full_like(value, 3e38) for name, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=state)
    tokenizer.save_pretrained(folder)
    return str(folder)


def one_pass(model, first, second=None):
    """Return the logits of one input by one unpadded forward pass; `first` and `second` are ids without [CLS], [SEP]."""
    ids = [CLS, *first, SEP, *([] if second is None else [*second, SEP])]
    types = [0] * (len(first) + 2) + [1] * (len(ids) - len(first) - 2)
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits[0].tolist()


def cut_longest_first(first, second):
    """Take ids off the end of the longer side until the pair fits; from even sides, off the one that was the shorter."""
    first_was_longer = len(first) > len(second)
    first, second = first[: 2 * WINDOW], second[: 2 * WINDOW]  # beyond, both lose their ends in any case
    while len(first) + len(second) > WINDOW - 3:
        if len(first) > len(second) or (len(first) == len(second) and not first_was_longer):
            first = first[:-1]
        else:
            second = second[:-1]
    return first, second


def plain_ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

"""BERTScore: how well the contextual embeddings of a text's word pieces match those of a reference."""

from importlib.metadata import version
from typing import Literal, get_args

from grue.metrics.metric import Average

Part = Literal["precision", "recall", "f1"]


def bertscore(
    model: str, layer: int = 0, revision: str = "", batch_size: int = 32, idf: bool = False, part: Part = "f1"
) -> Average:
    """Return BERTScore against the best reference, not rescaled: −1 to 1, in practice near the upper end.

    An empty text, and an empty reference, give 0. What is too long for the model is cut on the right.

    Args:
        model: Hub id or local folder of an encoder.
        layer: Which layer's output is matched, 1 for the lowest; 0 takes the one that bert-score recommends, which it
            does for many hub ids: 17 for roberta-large, 9 for bert-base-multilingual-cased.
        revision: Commit or tag of a hub model.
        batch_size: Texts at a time; does not change the values.
        idf: Weigh word pieces by how rare they are in the references of the prepared examples.
        part: "f1", "precision" (of the text's word pieces) or "recall" (of the reference's). As in bert-score, each
            takes its own best reference, so that the three may come from different references.

    Raises:
        ConfigError: There is no recommended layer, or the model does not have the layer.

    Source: Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT".
    """
    from grue.lm.scorers import model_signature
    from grue.metrics.neural.bertscore import Matching, recommended_layer

    layer = layer or recommended_layer(model)
    matching = Matching(model, layer, revision, batch_size, idf, get_args(Part).index(part))
    signature = (
        f"bertscore|{model_signature(model, revision)}|layer:{layer}|idf:{'prepared' if idf else 'no'}|part:{part}"
        f"|rescaled:no|cut:right|empty:0|refs:best|bert-score:{version('bert-score')}"
    )
    return Average(signature, matching.values, matching.prepare)


METRICS = {"bertscore": bertscore}

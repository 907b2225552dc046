"""What a record of Every Eval Ever 0.3.0 must and may hold: its published list of fields, as a small checker.

A shape is a type, a set of values, a list of one shape, or a table: key → shape, where `key!` is required. `...` stands
for any key, whose value is a text.
"""

TEXTS = {...: str}
NUMBER = (int, float)
SOURCE = {"dataset_name!": str, "additional_details": TEXTS}
HUB = {**SOURCE, "source_type!": {"hf_dataset"}, "hf_repo": str, "hf_split": str, "samples_number": int}
OTHER = {**SOURCE, "source_type!": {"other"}}
UNCERTAINTY = {
    "standard_error": {"value!": NUMBER, "method": str},
    "confidence_interval": {"lower!": NUMBER, "upper!": NUMBER, "confidence_level": NUMBER, "method": str},
    "standard_deviation": NUMBER,
    "num_samples": int,
}
METRIC = {
    **dict.fromkeys(("evaluation_description", "metric_id", "metric_name", "metric_kind", "metric_unit"), str),
    "metric_parameters": {...: (str, int, float, bool, type(None))},
    "lower_is_better!": bool,
    "score_type": {"binary", "continuous", "levels"},
    "min_score": (*NUMBER, type(None)),
    "max_score": (*NUMBER, type(None)),
}
ARGUMENTS = {"temperature": NUMBER, "top_p": NUMBER, "top_k": NUMBER, "max_tokens": int}
RESULT = {
    "evaluation_result_id": str,
    "evaluation_name!": str,
    "evaluation_timestamp": str,
    "source_data!": lambda found: HUB if found.get("source_type") == "hf_dataset" else OTHER,
    "metric_config!": METRIC,
    "score_details!": {"score!": NUMBER, "details": TEXTS, "uncertainty": UNCERTAINTY},
    "generation_config": {"generation_args": ARGUMENTS, "additional_details": TEXTS},
}
MODEL = {
    "name!": str,
    "id!": str,
    "developer": str,
    "inference_engine": {"name": str, "version": str},
    "additional_details!": {
        "deployment_type!": {"self_deployed", "externally_managed", "unknown"},
        "model_availability!": {"open_weights", "closed_weights", "unknown"},
        ...: str,
    },
}
RECORD = {
    "schema_version!": {"0.3.0"},
    "evaluation_id!": str,
    "evaluation_timestamp": str,
    "retrieved_timestamp!": str,
    "source_metadata!": {
        "source_name": str,
        "source_type!": {"documentation", "evaluation_run"},
        "source_organization_name!": str,
        "source_organization_url": str,
        "evaluator_relationship!": {"first_party", "third_party", "collaborative", "other"},
    },
    "eval_library!": {"name!": str, "version!": str, "additional_details": TEXTS},
    "model_info!": MODEL,
    "evaluation_results!": [RESULT],
}


def faults(found, shape=RECORD, where="record"):
    """Return what a record has otherwise than the schema wants."""
    if callable(shape) and not isinstance(shape, type):
        shape = shape(found)
    if isinstance(shape, set):
        return [] if found in shape else [f"{where}: {found!r}"]
    if isinstance(shape, list):
        return [fault for index, one in enumerate(found) for fault in faults(one, shape[0], f"{where}[{index}]")]
    if not isinstance(shape, dict):
        kinds = shape if isinstance(shape, tuple) else (shape,)
        right = isinstance(found, kinds) and (bool in kinds or not isinstance(found, bool))
        return [] if right else [f"{where}: {found!r}"]
    if not isinstance(found, dict):
        return [f"{where}: {found!r}"]
    known = {key if key is ... else key.removesuffix("!"): value for key, value in shape.items()}
    needed = {key[:-1] for key in shape if key is not ... and key.endswith("!")}
    wrong = [f"{where}: lacks {key}" for key in sorted(needed - found.keys())]
    wrong += [f"{where}: unknown {key}" for key in sorted(found.keys() - known.keys()) if ... not in known]
    for key, value in found.items():
        if key in known or ... in known:
            wrong += faults(value, known.get(key, known.get(...)), f"{where}.{key}")
    return wrong

from grue import callbacks as callbacks
from grue import errors as errors
from grue import rewards as rewards
from grue.api.bench import bench as bench
from grue.api.board import board as board
from grue.api.evaluate import evaluate as evaluate
from grue.api.evaluate import generate as generate
from grue.api.examples import examples as examples
from grue.api.exchange import export as export
from grue.api.exchange import import_predictions as import_predictions
from grue.api.exchange import push as push
from grue.api.score import compare as compare
from grue.api.score import score as score
from grue.api.train import Trained as Trained
from grue.api.train import diagnose as diagnose
from grue.api.train import train as train
from grue.evaluation.endpoint import Endpoint as Endpoint
from grue.records import Example as Example
from grue.records import Prediction as Prediction

__version__: str
__all__ = [
    "Endpoint",
    "Example",
    "Prediction",
    "Trained",
    "bench",
    "board",
    "callbacks",
    "compare",
    "diagnose",
    "errors",
    "evaluate",
    "examples",
    "export",
    "generate",
    "import_predictions",
    "push",
    "rewards",
    "score",
    "train",
]

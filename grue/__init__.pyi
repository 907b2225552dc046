from grue.api import Trained as Trained
from grue.api import compare as compare
from grue.api import diagnose as diagnose
from grue.api import evaluate as evaluate
from grue.api import examples as examples
from grue.api import score as score
from grue.api import train as train

__version__: str
__all__ = ["Trained", "compare", "diagnose", "evaluate", "examples", "score", "train"]

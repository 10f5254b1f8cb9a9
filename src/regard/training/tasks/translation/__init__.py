"""Translation, or any task from text to text that is trained on pairs."""

from .. import Task
from .config import TranslationConfig, adapt
from .evaluation import evaluate
from .training import TrainableTranslator
from .translated import Translated
from .translations import Translations

TASK = Task(
    name="translation",
    config=TranslationConfig,
    build=TrainableTranslator.build,
    open=Translations.open,
    evaluate=evaluate,
    data="pairs (TSV or .jsonl)",
    adapt=adapt,
    by_length=True,
)

__all__ = ["TASK", "TrainableTranslator", "Translated", "TranslationConfig", "Translations"]

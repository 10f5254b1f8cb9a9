"""Training and evaluation of models: tasks, the trainer, checkpoints, decoding, metrics; what `regard.open` returns."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .log import TrainingLog
    from .opened import OpenedModel, TextGenerator
    from .results import Candidate, Classified, ErrorRates, Filled, Prefix, Prefixes
    from .tasks.article.reading import Answer, ArticleReader, ReadArticle
    from .tasks.classify import Classifier
    from .tasks.lm import LanguageModel
    from .tasks.mlm import MaskedModel
    from .tasks.reader import Answered, StoryReader
    from .tasks.summarise import Summariser
    from .tasks.translation.translated import Translated
    from .tasks.translation.translations import Translations

_NAMES = {  # module → the public names it defines
    "log": "TrainingLog",
    "opened": "OpenedModel TextGenerator",
    "results": "Candidate Classified ErrorRates Filled Prefix Prefixes",
    "tasks.article.reading": "Answer ArticleReader ReadArticle",
    "tasks.classify": "Classifier",
    "tasks.lm": "LanguageModel",
    "tasks.mlm": "MaskedModel",
    "tasks.reader": "Answered StoryReader",
    "tasks.summarise": "Summariser",
    "tasks.translation.translated": "Translated",
    "tasks.translation.translations": "Translations",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Answer",
    "Answered",
    "ArticleReader",
    "Candidate",
    "Classified",
    "Classifier",
    "ErrorRates",
    "Filled",
    "LanguageModel",
    "MaskedModel",
    "OpenedModel",
    "Prefix",
    "Prefixes",
    "ReadArticle",
    "StoryReader",
    "Summariser",
    "TextGenerator",
    "TrainingLog",
    "Translated",
    "Translations",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

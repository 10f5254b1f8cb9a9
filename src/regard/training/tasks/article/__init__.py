"""Question answering over articles: pick the sentences that matter by hard attention, read only those."""

from .. import Task
from .config import ArticleConfig
from .evaluation import evaluate
from .reading import Answer, ArticleReader, ReadArticle
from .training import TrainableArticleReader

TASK = Task(
    name="article",
    config=ArticleConfig,
    build=TrainableArticleReader.build,
    open=ArticleReader.open,
    evaluate=evaluate,
    data="questions in SQuAD's JSON form",
)

__all__ = ["TASK", "Answer", "ArticleConfig", "ArticleReader", "ReadArticle", "TrainableArticleReader"]

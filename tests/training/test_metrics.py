import math

import pytest

from regard.training import metrics

REFERENCES = ["The cat sat on the mat.", "A dog runs fast today.", "Birds sing in the trees at dawn."]


def test_bleu_is_sacrebleus_and_says_how():
    score = metrics.bleu(REFERENCES, REFERENCES)
    assert score.value == pytest.approx(100.0)
    assert "tok:13a" in score.signature
    assert "case:mixed" in score.signature
    shouted = [r.upper() for r in REFERENCES]
    assert metrics.bleu(shouted, REFERENCES).value < 5
    lower = metrics.bleu(shouted, REFERENCES, lowercase=True)
    assert lower.value == pytest.approx(100.0)
    assert "case:lc" in lower.signature


def test_chrf_and_exact():
    assert metrics.chrf(REFERENCES, REFERENCES).value == pytest.approx(100.0)
    assert metrics.chrf(["xyz"] * 3, REFERENCES).value < 20
    assert metrics.exact(["a", "b", "c", "d"], ["a", "b", "c", "x"]) == 75.0


def test_scores_by_length_cover_every_sentence_once_and_keep_equal_lengths_together():
    references = [f"w{i} is a word here ." for i in range(40)]
    lengths = [i % 4 + 1 for i in range(40)]
    outputs = [r if n <= 2 else "wrong" for r, n in zip(references, lengths, strict=True)]
    rows = metrics.by_length(outputs, references, lengths, rows=4)
    assert [(r.least, r.most, r.sentences) for r in rows] == [(1, 1, 10), (2, 2, 10), (3, 3, 10), (4, 4, 10)]
    assert [r.exact for r in rows] == [100.0, 100.0, 0.0, 0.0]
    assert rows[0].bleu == pytest.approx(100.0)
    assert sum(r.sentences for r in metrics.by_length(outputs, references, [1] * 40, rows=5)) == 40


def test_perplexity_and_mismatched_lengths():
    assert metrics.perplexity(math.log(7)) == pytest.approx(7)
    assert metrics.perplexity(1e4) == math.inf
    with pytest.raises(ValueError, match="1 outputs but 2 references"):
        metrics.bleu(["a"], ["a", "b"])

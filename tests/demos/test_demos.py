"""The numbers of every demonstration, its drawing in the terminal, its JSON and its figure."""

import itertools
import json
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.demos import DEMOS, run_demo
from regard.demos.panels import Bars, Board, Grid, Note, Table
from regard.demos.text_output import board_text
from regard.terminal import Pen, columns

QUICK: dict[str, dict[str, Any]] = {"additive_vs_dot": {"lengths": (32, 64), "repeats": 1}}


@cache
def result(name: str) -> Any:
    """The numbers of a demonstration, computed once for all tests."""
    with torch.random.fork_rng(devices=[]):
        return import_module(f"regard.demos.{name}").run(**QUICK.get(name, {}))


def test_every_file_is_listed_and_every_listed_one_is_there() -> None:
    folder = Path(import_module("regard.demos").__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "panels", "text_output", "figure_output", "runner"}
    assert files == set(DEMOS)
    assert all(len(about) < 100 for about in DEMOS.values())


def test_fluffy_nouns_look_at_their_adjectives() -> None:
    r = result("fluffy")
    weight = {(q, k): r.weights[i][j] for i, q in enumerate(r.words) for j, k in enumerate(r.words)}
    assert weight["creature", "fluffy"] > 0.45
    assert weight["creature", "blue"] > 0.45
    assert weight["forest", "verdant"] > 0.95
    assert all(weight[word, word] > 0.9 for word in r.words if word not in ("creature", "forest"))
    assert all(r.weights[i][j] == 0 for i in range(8) for j in range(i + 1, 8))
    assert r.row_error < 1e-12
    assert r.output_error < 1e-12
    creature = r.change[r.words.index("creature")]
    assert creature[r.words.index("fluffy")] == pytest.approx(weight["creature", "fluffy"])
    assert creature[r.words.index("roamed")] == 0


def test_fluffy_follows_the_words_and_not_their_places() -> None:
    """In another sentence the nouns attend to their adjectives as well."""
    import regard

    fluffy = import_module("regard.demos.fluffy")
    words = ["the", "verdant", "creature", "roamed", "a", "blue", "fluffy", "forest"]
    layer = fluffy.build()
    _, attended = layer.observe(fluffy.embed(words).unsqueeze(0), mask=regard.causal(), readings=[regard.Rows([2, 7])])
    creature, forest = attended.readings["rows"][0, 0]
    assert creature[1] > 0.9
    assert forest[5] > 0.45
    assert forest[6] > 0.45


def test_a_learnt_head_looks_at_the_adjectives_it_was_never_shown_with_their_nouns() -> None:
    r = result("learned_head")
    weight = {(q, k): r.weights[i][j] for i, q in enumerate(r.words) for j, k in enumerate(r.words)}
    assert weight["creature", "fluffy"] + weight["creature", "blue"] > 0.9
    assert min(weight["creature", "fluffy"], weight["creature", "blue"]) > 0.25
    assert weight["forest", "verdant"] > 0.7
    assert r.named == {"creature": ["fluffy", "blue"], "forest": ["verdant"]}
    assert r.share_before < 0.4
    assert r.share[-1] > 0.85
    assert r.right > 0.98
    assert r.row_error < 1e-5
    demo = import_module("regard.demos.learned_head")
    ids, described, _, _ = demo.Grammar(seed=1).batch(2000)
    pairs = {(demo.VOCABULARY[ids[i, j]], demo.ADJECTIVES[a]) for i, j, a in described.nonzero().tolist()}
    assert len(pairs) == len(demo.NOUNS) * len(demo.ADJECTIVES) - len(demo.HELD_OUT)
    assert not pairs & demo.HELD_OUT


def test_why_sqrt_d() -> None:
    r = result("why_sqrt_d")
    assert all(d * 0.7 < v < d * 1.4 for d, v in zip(r.widths, r.dot_variance, strict=True))
    assert all(0.7 < v < 1.4 for v in r.scaled_variance)
    assert r.dot_largest[-1] > 0.95
    assert max(r.scaled_largest) < 0.25
    assert r.dot_gradient[-1] < r.dot_gradient[0] / 5
    assert max(r.scaled_gradient) < 1.3 * min(r.scaled_gradient)


def test_additive_vs_dot() -> None:
    r = result("additive_vs_dot")
    assert r.dot_multiplications == r.additive_multiplications == 64
    assert r.additive_tanhs == 64
    assert max(r.dot_error, r.additive_error) < 1e-5
    assert all(a > 0 and d > 0 for a, d in zip(r.additive_seconds, r.dot_seconds, strict=True))


def test_lookup_tends_to_the_dict() -> None:
    r = result("lookup")
    gaps = [abs(answer - r.crisp) for answer in r.answers]
    assert all(later < earlier or earlier == 0 for earlier, later in itertools.pairwise(gaps))
    assert gaps[-1] < 1e-12
    assert r.argmax == r.crisp == 8.0
    assert all(sum(row) == pytest.approx(1) for row in r.weights)


def test_column_form_is_the_transpose() -> None:
    r = result("column_form")
    assert max(r.weights_difference, r.output_difference) < 1e-14
    assert r.column_sums == pytest.approx([1.0] * 4)
    assert r.row_sums == pytest.approx([1.0] * 4)
    assert len(r.columns) == 6


def test_key_value() -> None:
    r = result("key_value")
    assert r.same
    assert r.written_out < 1e-14
    assert r.other_values > 0.1
    # The mean of n draws comes closer as 1/√n.
    for n, m, far, near in zip(r.draws, r.draws[1:], r.distance, r.distance[1:], strict=False):
        assert near / far == pytest.approx((n / m) ** 0.5, rel=0.5)


def test_factored_bilinear() -> None:
    r = result("factored_bilinear")
    assert r.score_rank == r.ranks
    assert r.parameters == [2 * 48 * rank for rank in r.ranks]
    assert max(r.difference) < 1e-12
    assert all(b < a for a, b in zip(r.best_error, r.best_error[1:], strict=False))
    assert r.best_error[-1] < 1e-12
    assert r.dot_asymmetry < 1e-12
    assert r.bilinear_asymmetry > 0.5


def test_two_queries_two_selections() -> None:
    r = result("two_queries")
    picks = {name: r.things[max(range(5), key=weights.__getitem__)] for name, weights in {**r.salient, **r.focused}.items()}
    assert picks == {
        "winner takes all": "red cup",
        "max pooling": "red cup",
        "gates": "red cup",
        "I want to read": "book",
        "I want to write": "notebook",
    }


def test_hard_attention_learns() -> None:
    r = result("hard_attention")
    assert r.accuracy_before < 2 * r.chance
    assert r.accuracy_argmax > 0.95
    assert r.accuracy_sampled > 0.9
    assert r.gradient_spread < 0.7
    assert sum(r.right[:5]) > sum(r.right_without[:5])


def test_heads() -> None:
    r = result("heads")
    assert max(r.by_hand, r.collapsed, r.queries_together) < 1e-13
    assert r.once_numbers < r.twice_numbers


def test_self_attention_vs() -> None:
    layers = result("self_attention_vs").layers
    assert {name: layer.reached for name, layer in layers.items()} == {
        "self-attention": 16,
        "convolution": 2,
        "recurrent": 16,
        "fully connected": 16,
    }
    assert [layer.path for layer in layers.values()] == [1, 15, 16, 1]
    assert [layer.any_length for layer in layers.values()] == [True, True, True, False]
    assert [layer.parameters_twice == layer.parameters for layer in layers.values()] == [True, True, True, False]
    assert [layer.from_data for layer in layers.values()] == [True, False, True, False]


def test_causal_mask() -> None:
    r = result("causal_mask")
    assert r.moved_masked[:3] == [0.0, 0.0, 0.0]
    assert min(r.moved_masked[3:]) > 0
    assert min(r.moved_unmasked) > 0
    assert r.row_sums == pytest.approx([1.0] * 6)
    assert min(r.zeroed_after) < 0.5
    assert r.gradient_ahead == 0


def test_value_map() -> None:
    r = result("value_map")
    assert r.ranks == [8] * 4
    assert max(r.sum_error, r.residual_error) < 1e-13
    assert (r.gpt3_full, r.gpt3_factors) == (150_994_944, 3_145_728)
    assert min(r.share) > 0.05


def test_last_vector() -> None:
    r = result("last_vector")
    assert r.unchanged
    assert r.moved[-1] == 0
    assert min(r.moved[:-1]) > 0.01  # before a layer, attention still carries what the earlier vectors hold
    assert r.one_pass_error < 1e-4
    assert len(r.candidates) == len(r.text)


def test_long_context() -> None:
    r = result("long_context")
    assert max(r.exact.values()) < 1e-13
    assert max(r.pairs.values()) < 0.4
    assert r.linformer_smooth[-1] < 0.002 < r.linformer_smooth[0]
    assert min(r.linformer_noise) > 0.3
    assert r.hashing_clusters[-1] < 0.01 < r.hashing_clusters[0]
    assert r.hashing_noise[-1] < r.hashing_noise[0] / 2
    assert r.span_difference > 0.1


@pytest.mark.parametrize("name", DEMOS)
def test_every_board_is_drawn(name: str) -> None:
    board = import_module(f"regard.demos.{name}").show(result(name))
    plain, coloured = board_text(board, Pen()), board_text(board, Pen(colour=True))
    assert plain.startswith(board.title)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert max(columns(line) for line in plain.split("\n")) <= 120
    assert len(plain.split("\n")) == len(coloured.split("\n"))


def test_plays_as_a_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run_demo("column_form", ["--json"])
    assert json.loads(capsys.readouterr().out)["row_sums"] == pytest.approx([1.0] * 4)
    pytest.importorskip("matplotlib", reason="pip install matplotlib to save figures")
    run_demo("fluffy", ["--plain", "--save", str(tmp_path / "fluffy.svg")])
    out = capsys.readouterr()
    assert "fluffy(0.50) blue(0.50) [creature]" in out.out
    drawn = (tmp_path / "fluffy.svg").read_text()
    assert ">creature</text>" in drawn.replace("\n", "")
    with pytest.raises(ValueError, match=r"ends in \.txt; a figure is saved as \.svg, \.png, \.pdf"):
        run_demo("fluffy", ["--save", str(tmp_path / "fluffy.txt")])
    with pytest.raises(ValueError, match="there is no demonstration 'nothing'"):
        run_demo("nothing")


@pytest.mark.parametrize("name", ["why_sqrt_d", "value_map", "self_attention_vs"])
def test_figures_of_every_kind_of_picture(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install matplotlib to save figures")
    from regard.demos.figure_output import save_board

    target = save_board(import_module(f"regard.demos.{name}").show(result(name)), tmp_path / "figure.png")
    assert target.read_bytes().startswith(b"\x89PNG")


def test_piped_output_is_plain() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "regard.demos.fluffy"], capture_output=True, text=True, timeout=120, env=environment, check=True
    )
    assert done.stdout.startswith("Nouns attend to the adjectives before them.")
    assert "\x1b" not in done.stdout


def test_the_callers_random_stream_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    run_demo("heads")
    assert torch.equal(torch.rand(3), expected)
    assert "head 3" in capsys.readouterr().out


def test_pictures_by_hand() -> None:
    board = Board(
        "T",
        [
            Note("n"),
            Grid("g", [[1.0, 0.0]], ["我"], ["爱", "你"], [[False, True]], numbers=False),
            Bars("b", {"one": 1.0, "two": 2.0}, "s"),
            Table("t", [["a", "b"], ["x", "1"]]),
        ],
    )
    assert board_text(board, Pen()).split("\n") == [
        "T",
        "",
        "n",
        "",
        "g",
        "    爱  你",
        "我 @@@@  /",
        "",
        "b",
        "one  ############              1 s",
        "two  ########################  2 s",
        "",
        "t",
        "a  b",
        "x  1",
        "",
        "scale  0 .:-=+*#%@ 1 (linear)   / masked",
    ]

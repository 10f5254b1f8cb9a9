import math

import pytest
import torch

from regard import Entropy
from regard.models.gpt import Gpt, GptConfig
from regard.models.sampling import next_token

SHAPES = {
    "gpt2": {"positions": "learned"},
    "llama": {"positions": "rotary", "norm": "rms", "activation": "swiglu", "kv_heads": 2, "bias": False, "tied": False},
    "window": {"positions": "rotary", "window": 5, "window_layers": (0, 2)},
    "waves, after": {"positions": "sinusoidal", "placement": "post", "activation": "relu"},
    "none": {"positions": "none", "activation": "gelu_tanh"},
}


def small(shape: str = "gpt2", **options: object) -> Gpt:
    torch.manual_seed(0)
    settings = {"vocabulary": 40, "d_model": 32, "heads": 4, "layers": 3, "context": 32} | SHAPES[shape] | options
    model = Gpt(GptConfig(**settings)).double()
    with torch.no_grad():
        for parameter in model.parameters():  # an initialisation is nearly uniform; these logits are not
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


IDS = torch.randint(0, 40, (2, 20), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_later_tokens_do_not_change_earlier_logits(shape):
    model, other = small(shape), IDS.clone()
    other[:, 12:] = (other[:, 12:] + 7) % 40
    torch.testing.assert_close(model(IDS)[:, :12], model(other)[:, :12])
    assert (model(IDS)[:, 12:] - model(other)[:, 12:]).abs().max() > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cache_gives_the_same_logits_token_by_token(shape):
    model = small(shape)
    cache = model.new_cache()
    with torch.no_grad():
        parts = [model(IDS[:, a:b], cache) for a, b in ((0, 7), (7, 8), (8, 9), (9, 14), (14, 20))]
        torch.testing.assert_close(torch.cat(parts, 1), model(IDS))
    assert cache.length == 20


def test_a_window_limits_how_far_a_token_reaches():
    """Layers 0 and 2 see 5 tokens back; were all layers windowed, 3 layers reach (5 − 1) · 3 tokens."""
    model = small("window", window_layers=None)
    other = IDS.clone()
    other[:, 0] = (other[:, 0] + 1) % 40
    changed = (model(IDS) - model(other)).abs().amax((0, 2))
    assert changed[12] > 1e-9
    assert changed[13:].max() < 1e-12
    model = small("window")
    assert (model(IDS) - model(other)).abs().amax((0, 2))[19] > 1e-9


def test_the_loss_is_the_mean_over_the_wanted_positions():
    model = small()
    targets = IDS.roll(-1, 1)
    targets[1, 5:] = -100
    logits = model(IDS)
    picked = [-logits[b, t].log_softmax(-1)[targets[b, t]] for b in range(2) for t in range(20) if targets[b, t] >= 0]
    torch.testing.assert_close(model.loss(IDS, targets), torch.stack(picked).mean())


def test_fresh_weights_are_gpt2s():
    model = Gpt(GptConfig(vocabulary=500, d_model=256, heads=4, layers=8))
    assert model.tokens.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.blocks[3].attention.in_proj_weight.std().item() == pytest.approx(0.02, rel=0.05)
    for residual in (model.blocks[3].attention.out_proj, model.blocks[3].mlp.down):
        assert residual.weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.05)
    assert model.loss(IDS, IDS.roll(-1, 1)).item() == pytest.approx(math.log(500), rel=0.02)


def test_observing_reads_every_layer_and_changes_nothing():
    model = small()
    logits, seen = model.observe(IDS, readings=[Entropy()])
    torch.testing.assert_close(logits, model(IDS))
    assert [each.readings["entropy"].shape for each in seen] == [(2, 4, 20)] * 3


@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_generation_is_the_plain_loop(shape):
    model, text = small(shape), IDS[:, :6]
    with torch.no_grad():
        for _ in range(10):
            text = torch.cat([text, model(text)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(model.generate(IDS[:, :6], max_new=10, temperature=0), text)


def test_generation_goes_on_past_learned_positions():
    model = small(context=8)
    text = model.generate(IDS, max_new=30, temperature=0)
    assert text.shape == (2, 50)
    with torch.no_grad():  # the first new token reads the newest 8; the second starts afresh from 4
        assert torch.equal(text[:, 20], model(IDS[:, -8:])[:, -1].argmax(-1))
        assert torch.equal(text[:, 21], model(text[:, 17:21])[:, -1].argmax(-1))
        assert torch.equal(text[:, 22], model(text[:, 17:22])[:, -1].argmax(-1))


def test_generation_is_seeded_and_leaves_the_mode_alone():
    model = small(dropout=0.5).train()
    drawn = [model.generate(IDS[:, :6], max_new=12, generator=torch.Generator().manual_seed(s)) for s in (3, 3, 4)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert model.training


def test_generation_stops_row_by_row():
    model = small()
    free = model.generate(IDS[:, :6], max_new=12, temperature=0)
    stop = int(free[0, 8])
    first = [row.tolist().index(stop) if stop in row.tolist() else 12 for row in free[:, 6:]]
    stopped = model.generate(IDS[:, :6], max_new=12, temperature=0, stop=stop)
    assert stopped.shape[1] == 6 + min(12, max(first) + 1)
    for row in range(2):
        end = min(6 + first[row] + 1, stopped.shape[1])
        assert torch.equal(stopped[row, :end], free[row, :end])
        assert (stopped[row, end:] == stop).all()
    with pytest.raises(ValueError, match="at least one token"):
        model.generate(IDS[:, :0], max_new=1)


def test_next_token_follows_its_distribution():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).expand(40_000, 4)
    generator = torch.Generator().manual_seed(0)

    def shares(**options: object) -> torch.Tensor:
        return torch.bincount(next_token(logits, generator=generator, **options), minlength=4) / 40_000

    torch.testing.assert_close(shares(), logits[0].softmax(-1), rtol=0, atol=0.01)
    torch.testing.assert_close(shares(temperature=2.0), (logits[0] / 2).softmax(-1), rtol=0, atol=0.01)
    two = torch.cat([logits[0, :2].softmax(-1), torch.zeros(2)])
    torch.testing.assert_close(shares(top_k=2), two, rtol=0, atol=0.01)
    torch.testing.assert_close(shares(top_p=0.7), two, rtol=0, atol=0.01)  # 0.64 is not enough, 0.64 + 0.24 is
    assert shares(top_p=0.6)[0] == 1
    assert next_token(torch.randn(2, 3, 5)).shape == (2, 3)
    for bad in ({"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}):
        with pytest.raises(ValueError, match="; expected "):
            next_token(logits, **bad)


def grammar(rows: int, generator: torch.Generator) -> tuple[torch.Tensor, float]:
    """Sentences "a b … c": an opener 0–3 drawn evenly, 1 to 3 fillers drawn from 4 and 5, then the opener's own closer (opener + 6).

    The closer needs the opener, up to 4 tokens back. Entropy of a sentence: log 4 (opener) + the fillers' log 2 each + whether it goes on.
    """
    sentences = []
    for _ in range(rows):
        row: list[int] = []
        while len(row) < 33:
            opener, fillers = int(torch.randint(4, (), generator=generator)), int(torch.randint(1, 4, (), generator=generator))
            row += [opener, *(torch.randint(4, 6, (fillers,), generator=generator).tolist()), opener + 6]
        sentences.append(row[:33])
    # 1 to 3 fillers evenly: after the first it goes on with 2/3, after the second with 1/2, after the third never.
    entropy = math.log(4) + 2 * math.log(2) + math.log(3)
    return torch.tensor(sentences), entropy / 4  # 4 tokens a sentence on average


def test_gpt_learns_a_grammar_to_its_entropy():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Gpt(GptConfig(vocabulary=10, d_model=32, heads=2, layers=2, context=32, positions="rotary"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=400)
    pool, entropy = grammar(1000, generator)
    held, _ = grammar(200, generator)
    for _ in range(400):
        batch = pool[torch.randint(len(pool), (32,), generator=generator)]
        optimizer.zero_grad(set_to_none=True)
        model.loss(batch[:, :-1], batch[:, 1:]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        reached = model.eval().loss(held[:, :-1], held[:, 1:]).item()
    assert reached < 1.03 * entropy
    assert reached > 0.97 * entropy  # below it would be a leak of the future
    text = model.generate(held[:, :9], max_new=20, generator=generator)
    legal = sum(closes(row) for row in text.tolist())
    assert legal >= 0.9 * len(text)  # five closers a row: by chance one row in a thousand


def closes(row: list[int]) -> bool:
    """Every closer in the row is its opener's."""
    opener = row[0]
    for token in row[1:]:
        if token < 4:
            opener = token
        elif token >= 6 and token != opener + 6:
            return False
    return True


def test_half_precision_stays_close():
    """Under autocast, as training does it, and with the weights themselves in bfloat16, as large models are run."""
    for shape in ("gpt2", "llama"):
        model = small(shape).float()
        with torch.no_grad():
            exact = model(IDS)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                mixed, cache = model(IDS), model.new_cache()
                cached = torch.cat([model(IDS[:, :9], cache), model(IDS[:, 9:], cache)], 1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.loss(IDS, IDS.roll(-1, 1)).backward()
        spread = exact.std()
        assert (mixed - exact).abs().max() < 0.15 * spread
        assert (cached - exact).abs().max() < 0.15 * spread
        assert all(p.grad is not None and p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())
        with torch.no_grad():
            assert (model.bfloat16()(IDS) - exact).abs().max() < 0.25 * spread

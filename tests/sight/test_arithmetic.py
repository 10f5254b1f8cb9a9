"""The arithmetic of one weight of a real head is the model's own."""

import math

import pytest
import torch

from regard.models import Gpt, GptConfig
from regard.sight import watch
from regard.sight.arithmetic import head_arithmetic

IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "kv_heads": 1}])
def test_scores_weights_and_what_is_added_are_the_model_s(options):
    torch.manual_seed(0)
    model = Gpt(GptConfig(vocabulary=30, d_model=24, heads=4, layers=2, context=16, bias=False, **options)).eval()
    added = []
    hook = model.blocks[1].attention.register_forward_hook(lambda module, args, out: added.append(out[0, 4]))
    with watch(model) as seen, torch.no_grad():
        model(IDS)
    hook.remove()
    steps = [head_arithmetic(model, IDS, layer=1, head=head, query=4) for head in range(4)]
    for head, one in enumerate(steps):
        assert torch.allclose(one.weights.float(), seen.head(1, head).tile()[4], atol=1e-6)
        assert one.factor == pytest.approx(1 / math.sqrt(6))
        assert one.scores[5] == -math.inf
        assert torch.allclose(one.output, one.weights @ one.values)
    assert torch.allclose(sum(one.added for one in steps).float(), added[0], atol=1e-6)


def test_what_does_not_exist_is_told():
    model = Gpt(GptConfig(vocabulary=30, d_model=24, heads=4, layers=2, context=16)).eval()
    with pytest.raises(IndexError, match="layers 0 … 1"):
        head_arithmetic(model, IDS, layer=2, head=0, query=0)
    with pytest.raises(IndexError, match="heads 0 … 3 and queries 0 … 5"):
        head_arithmetic(model, IDS, layer=0, head=4, query=0)

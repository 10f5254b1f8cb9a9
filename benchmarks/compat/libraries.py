"""Models of other libraries, small and with random weights: what builds each one, and what it is called with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchvision_operators  # noqa: F401
from by_hand import MODELS as BY_HAND
from tiny import fill_zeros
from torch import Tensor, nn

Built = tuple[nn.Module, Callable[[nn.Module], Any]]

IMAGES = {"vit_tiny_patch16_224": 64, "deit3_small_patch16_224": 64, "beit_base_patch16_224": 64, "eva02_tiny_patch14_224": 56}
TIMM = [
    *IMAGES, "cait_xxs24_224", "coat_tiny", "convit_tiny", "crossvit_tiny_240", "davit_tiny", "edgenext_xx_small", "efficientformerv2_s0",
    "gcvit_xxtiny", "hiera_tiny_224", "levit_128s", "maxvit_rmlp_pico_rw_256", "mobilevit_xxs", "mvitv2_tiny", "nest_tiny", "pit_ti_224",
    "pvt_v2_b0", "swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "tiny_vit_5m_224", "tnt_s_legacy_patch16_224",
    "twins_svt_small", "vit_relpos_small_patch16_224", "vit_base_patch16_siglip_gap_224", "volo_d1_224", "xcit_nano_12_p16_224",
]  # fmt: skip
TORCHVISION = ["vit", "swin", "swin v2", "maxvit"]
DIFFUSERS = ["unet, plain processor", "unet, SDPA processor", "autoencoder", "dit", "sd3", "flux", "pixart"]
X_TRANSFORMERS = ["decoder", "decoder, flash", "encoder", "decoder, rotary", "decoder, alibi", "decoder, T5 bias", "decoder, talking heads",
                  "decoder, one key head", "decoder, qk norm", "encoder–decoder", "decoder, sigmoid"]  # fmt: skip
VIT_PYTORCH = ["ViT", "SimpleViT", "CaiT", "DeepViT", "CvT", "CrossViT", "LeViT", "PiT", "MobileViT", "CrossFormer", "RegionViT", "ViT3D"]
NAMES = {
    "timm": [*TIMM, *(f"{name}, unfused" for name in ("vit_tiny_patch16_224", "beit_base_patch16_224", "swin_tiny_patch4_window7_224"))],
    "torchvision": TORCHVISION,
    "diffusers": DIFFUSERS,
    "x_transformers": X_TRANSFORMERS,
    "vit_pytorch": VIT_PYTORCH,
    "sentence_transformers": ["BERT, mean pooling", "MPNet, mean pooling"],
    "written by hand": list(BY_HAND),
}


def names(library: str) -> list[str]:
    return NAMES[library]


def build(library: str, name: str) -> Built:
    """Return a model, and a function that calls it."""
    torch.manual_seed(0)
    model, run = BUILDERS[library](name)
    fill_zeros(model)
    return model, run


def call(*inputs: Any, **options: Any) -> Callable[[nn.Module], Any]:
    return lambda model: model(*inputs, **options)


def image(size: int, batch: int = 1) -> Tensor:
    return torch.randn(batch, 3, size, size)


def _timm(name: str) -> Built:
    import timm
    from timm.layers import set_fused_attn

    base, _, how = name.partition(", ")
    set_fused_attn(how != "unfused")
    options: dict[str, Any] = {}
    if base in IMAGES:
        options = {"img_size": IMAGES[base], "depth": 2}
    model = timm.create_model(base, pretrained=False, **options)
    size = model.pretrained_cfg["input_size"][-1] if base not in IMAGES else IMAGES[base]
    return model, call(image(size))


def _torchvision(name: str) -> Built:
    from torchvision import models
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer, SwinTransformerBlockV2

    swin = {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
    if name == "vit":
        return models.VisionTransformer(32, 8, 2, 4, 32, 64), call(image(32))
    if name == "swin":
        return SwinTransformer(**swin), call(image(64))
    if name == "swin v2":
        return SwinTransformer(**swin, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2), call(image(64))
    model = models.MaxVit(
        input_size=(64, 64), stem_channels=16, partition_size=2, block_channels=[16, 32], block_layers=[1, 1], head_dim=8,
        stochastic_depth_prob=0.0,
    )  # fmt: skip
    return model, call(image(64))


def _diffusers(name: str) -> Built:
    import diffusers
    from diffusers.models.attention_processor import AttnProcessor, AttnProcessor2_0

    step = torch.tensor([3])
    if name.startswith("unet"):
        model = diffusers.UNet2DConditionModel(
            sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=16,
            attention_head_dim=8, norm_num_groups=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        )  # fmt: skip
        model.set_attn_processor(AttnProcessor() if "plain" in name else AttnProcessor2_0())
        return model, call(torch.randn(1, 4, 16, 16), step, torch.randn(1, 7, 16))
    if name == "autoencoder":
        return diffusers.AutoencoderKL(block_out_channels=(32,), norm_num_groups=8), call(image(16))
    if name == "dit":
        model = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, num_layers=2, sample_size=8, norm_num_groups=4)
        return model, call(torch.randn(1, 4, 8, 8), timestep=step, class_labels=torch.tensor([1]))
    if name == "sd3":
        model = diffusers.SD3Transformer2DModel(
            sample_size=16, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
            pooled_projection_dim=16,
        )  # fmt: skip
        return model, call(torch.randn(1, 16, 16, 16), torch.randn(1, 5, 16), torch.randn(1, 16), step)
    if name == "flux":
        model = diffusers.FluxTransformer2DModel(
            in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
            pooled_projection_dim=16, axes_dims_rope=(4, 6, 6),
        )  # fmt: skip
        ids = torch.zeros(6, 3)
        return model, call(torch.randn(1, 6, 8), torch.randn(1, 4, 16), torch.randn(1, 16), torch.tensor([0.5]), ids, torch.zeros(4, 3))
    model = diffusers.PixArtTransformer2DModel(
        sample_size=16, num_layers=2, attention_head_dim=8, num_attention_heads=2, cross_attention_dim=16, caption_channels=16,
        norm_num_groups=4,
    )  # fmt: skip
    conditions = {"resolution": None, "aspect_ratio": None}
    return model, call(torch.randn(1, 4, 16, 16), torch.randn(1, 5, 16), step, added_cond_kwargs=conditions)


def _x_transformers(name: str) -> Built:
    from x_transformers import Decoder, Encoder, TransformerWrapper, XTransformer

    ids = torch.randint(0, 50, (2, 12))
    if name == "encoder–decoder":
        sizes = {f"{side}_{key}": value for side in ("enc", "dec") for key, value in
                 {"num_tokens": 50, "depth": 2, "heads": 4, "max_seq_len": 32}.items()}  # fmt: skip
        return XTransformer(dim=32, **sizes), call(ids, ids)
    options = {
        "decoder, flash": {"attn_flash": True}, "decoder, rotary": {"rotary_pos_emb": True}, "decoder, alibi": {"alibi_pos_bias": True},
        "decoder, T5 bias": {"rel_pos_bias": True},
        "decoder, talking heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
        "decoder, one key head": {"attn_one_kv_head": True}, "decoder, qk norm": {"attn_qk_norm": True},
        "decoder, sigmoid": {"attn_sigmoid": True},
    }.get(name, {})  # fmt: skip
    layers = (Encoder if name == "encoder" else Decoder)(dim=32, depth=2, heads=4, **options)
    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers), call(ids)


def _vit_pytorch(name: str) -> Built:
    import importlib

    import vit_pytorch

    size = {"image_size": 32, "num_classes": 5, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 37, "patch_size": 8}
    if name in ("ViT", "SimpleViT"):
        return getattr(vit_pytorch, name)(**size), call(image(32))
    if name == "CaiT":
        return importlib.import_module("vit_pytorch.cait").CaiT(**size, cls_depth=1), call(image(32))
    if name == "DeepViT":
        return importlib.import_module("vit_pytorch.deepvit").DeepViT(**size), call(image(32))
    if name == "CvT":
        return importlib.import_module("vit_pytorch.cvt").CvT(num_classes=5, s1_emb_dim=16, s2_emb_dim=16, s3_emb_dim=16), call(image(64))
    if name == "CrossViT":
        return importlib.import_module("vit_pytorch.cross_vit").CrossViT(
            image_size=32, num_classes=5, sm_dim=16, lg_dim=32, sm_patch_size=8, lg_patch_size=16, sm_enc_mlp_dim=32, lg_enc_mlp_dim=32
        ), call(image(32))
    if name == "LeViT":
        return importlib.import_module("vit_pytorch.levit").LeViT(
            image_size=64, num_classes=5, stages=2, dim=(32, 48), depth=1, heads=(2, 4), mlp_mult=2
        ), call(image(64))
    if name == "PiT":
        return importlib.import_module("vit_pytorch.pit").PiT(
            image_size=32, patch_size=8, num_classes=5, dim=32, depth=(1, 1), heads=4, mlp_dim=37
        ), call(image(32))
    if name == "MobileViT":
        model = importlib.import_module("vit_pytorch.mobile_vit").MobileViT(
            image_size=(64, 64), dims=[32, 48, 64], channels=[16, 16, 24, 24, 48, 48, 64, 64, 80, 80, 160], num_classes=5
        )
        return model, call(image(64))
    if name == "CrossFormer":
        model = importlib.import_module("vit_pytorch.crossformer").CrossFormer(
            num_classes=5, dim=(64, 64, 64, 64), depth=(1, 1, 1, 1), global_window_size=(4, 2, 2, 1), local_window_size=2
        )
        return model, call(image(64))
    if name == "RegionViT":
        model = importlib.import_module("vit_pytorch.regionvit").RegionViT(
            dim=(16, 16, 32, 32), depth=(1, 1, 1, 1), window_size=2, num_classes=5, tokenize_local_3_conv=False
        )
        return model, call(image(64))
    model = importlib.import_module("vit_pytorch.vit_3d").ViT(
        image_size=16, image_patch_size=8, frames=4, frame_patch_size=2, num_classes=5, dim=32, depth=2, heads=4, mlp_dim=37
    )
    return model, call(torch.randn(1, 3, 4, 16, 16))


def _sentence_transformers(name: str) -> Built:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "a", "dog", "runs", "home", "the", "cat"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    kind, config = (BertModel, BertConfig) if name.startswith("BERT") else (MPNetModel, MPNetConfig)
    sizes = {"vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
    with tempfile.TemporaryDirectory() as folder:
        kind(config(**sizes)).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
        part = Transformer(str(Path(folder)))
    model = SentenceTransformer(modules=[part, Pooling(32)], device="cpu")
    features = model.tokenize(["a dog runs home", "the cat"])
    return model, lambda m: m(dict(features))


def _by_hand(name: str) -> Built:
    model, inputs = BY_HAND[name]()
    return model, call(*inputs)


BUILDERS: dict[str, Callable[[str], Built]] = {
    "timm": _timm, "torchvision": _torchvision, "diffusers": _diffusers, "x_transformers": _x_transformers, "vit_pytorch": _vit_pytorch,
    "sentence_transformers": _sentence_transformers, "written by hand": _by_hand,
}  # fmt: skip

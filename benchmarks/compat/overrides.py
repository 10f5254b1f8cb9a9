"""What single families of transformers need beside the rules of tiny.py and inputs.py: fields of their configs, and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_SWIN = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32, "patch_size": 2}
_T5 = {"model_type": "t5", "vocab_size": 120, "d_model": 32, "d_ff": 40, "d_kv": 8, "num_layers": 2, "num_heads": 4}
_ENCODEC = {"model_type": "encodec", "hidden_size": 16, "num_filters": 4, "codebook_size": 32, "codebook_dim": 16}
_MUSIC = {
    "model_type": "musicgen_decoder", "vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 40,
    "num_codebooks": 2, "pad_token_id": 0, "bos_token_id": 0,
}  # fmt: skip
OVERRIDES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("swin", "swinv2", "donut-swin", "maskformer-swin"), _SWIN),
    "mobilevit": {"initializer_range": 0.2},
    "vits": {
        "flow_size": 16, "spectrogram_bins": 16, "upsample_initial_channel": 16, "upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4],
        "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3]], "prior_encoder_num_flows": 1,
        "prior_encoder_num_wavenet_layers": 1,
        "posterior_encoder_num_wavenet_layers": 1, "duration_predictor_num_flows": 2, "duration_predictor_filter_channels": 16,
    },
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "big_bird": {"block_size": 4, "num_random_blocks": 1},
    "bigbird_pegasus": {"block_size": 4, "num_random_blocks": 1},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lilt": {"hidden_size": 48},
    "funnel": {"num_hidden_layers": None, "num_blocks": None, "block_sizes": [1, 1]},
    "prophetnet": {"num_hidden_layers": None},
    "gemma3": {"mm_tokens_per_image": 4},
    "longt5": {"local_radius": 3, "encoder_attention_type": "transient-global", "global_block_size": 4},
    "pegasus_x": {"block_size": 8, "num_global_tokens": 3},
    "perceiver": {
        "num_latents": 10, "d_latents": 32, "qk_channels": 32, "v_channels": 32, "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
    },
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1},
    "dots1": {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 40, "hidden_size": 32},
    },
    "esm": {"pad_token_id": 1, "position_embedding_type": "rotary", "token_dropout": False},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False, "num_experts": 2},
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "nemotron_h": {"layers_block_type": ["mamba", "attention"], "n_groups": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "zamba": {"num_hidden_layers": 6, "attn_layer_period": 3, "attn_layer_offset": 2, "layer_types": None, "layers_block_type": None},
    "mistral4": {"head_dim": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8},
    "longcat_flash": {"head_dim": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "zero_expert_num": 2},
    "lxmert": {"l_layers": 2, "x_layers": 2, "r_layers": 2, "visual_feat_dim": 16},
    "levit": {"image_size": 64, "patch_size": 16, "hidden_sizes": [16, 32, 48], "num_attention_heads": [2, 4, 6], "depths": [1, 1, 1],
        "key_dim": [8, 8, 8]},
    "sam": {
        "vision_config.output_channels": 32, "vision_config.num_pos_feats": 16, "vision_config.global_attn_indexes": [1],
        "vision_config.window_size": 2, "vision_config.initializer_range": 0.02,
    },
    "kosmos-2": {"text_config.layers": 2, "latent_query_num": 4},
    "paligemma": {"vision_config.projection_dim": 32},
    "blip-2": {"image_token_id": 3, "num_query_tokens": 4, "qformer_config.encoder_hidden_size": 32, "text_config.pad_token_id": 1},
    "instructblip": {"image_token_id": 3, "num_query_tokens": 4, "qformer_config.encoder_hidden_size": 32},
    "instructblipvideo": {"image_token_id": 3, "video_token_id": 3, "num_query_tokens": 4, "qformer_config.encoder_hidden_size": 32},
    "bridgetower": {"text_config.hidden_size": 64, "vision_config.hidden_size": 64, "hidden_size": 64},
    "bros": {"hidden_size": 64},
    "vilt": {"max_image_length": -1},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "vitmatte": {"fusion_hidden_sizes": [16, 8, 8, 8]},
    "wav2vec2-bert": {"feature_projection_input_dim": 16},
    "speech_to_text": {"conv_channels": 32, "input_feat_per_channel": 16},
    "time_series_transformer": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1},
    "informer": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1},
    "autoformer": {"prediction_length": 4, "context_length": 8, "label_length": 4, "lags_sequence": [1, 2], "num_time_features": 1,
        "moving_average": 3},
    "patchtst": {"context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 2},
    "swin2sr": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "image_size": 16, "patch_size": 1},
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "chunk_size": 8},
    "xlstm": {"qk_dim_factor": 1.0},
    "mask2former": {"num_feature_levels": 3, "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32,
        "encoder_feedforward_dim": 16, "dim_feedforward": 32},
    "maskformer": {"fpn_feature_size": 32, "mask_feature_size": 32, "decoder_config": {"model_type": "detr", "d_model": 32,
        "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "num_queries": 6}},
    "deformable_detr": {"num_feature_levels": 4},
    "gemma4_assistant": {"text_config.hidden_size_per_layer_input": 0},
    "llama4": {"vision_config.pixel_shuffle_ratio": 0.5, "vision_config.projector_input_dim": 32, "vision_config.projector_output_dim": 32,
        "vision_config.vision_output_dim": 32, "vision_config.intermediate_size": 128},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "aria": {"projector_patch_to_query_dict": {16: 4}},
    "granite_speech5_ctc": {"context_size": 8},
    "timesfm2_5": {"patch_length": 8},
    "efficientloftr": {"hidden_size": 256},
    "videoprism": {"tubelet_size": [1, 8, 8]},
    "step3p7": {"text_config.sliding_window": 8},
    "sam2": {
        "vision_config": {
            "backbone_config": {
                "model_type": "sam2_hiera_det_model", "hidden_size": 16, "image_size": [64, 64], "blocks_per_stage": [1, 1, 1, 1],
                "embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 2, 4, 8],
                "window_size_per_stage": [4, 2, 2, 2], "global_attention_blocks": [],
        "window_positional_embedding_background_size": [2, 2],
            },
            "backbone_channel_list": [128, 64, 32, 16], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]], "fpn_hidden_size": 32,
        },
        "prompt_encoder_config": {"hidden_size": 32, "image_size": 64, "patch_size": 16, "mask_input_channels": 8},
        "mask_decoder_config": {"hidden_size": 32, "mlp_dim": 40, "num_attention_heads": 4, "iou_head_hidden_dim": 32},
    },
    "musicgen": {"text_encoder": _T5, "audio_encoder": _ENCODEC, "decoder": _MUSIC},
    "musicgen_melody": {"text_encoder": _T5, "audio_encoder": _ENCODEC, "decoder": {**_MUSIC, "model_type": "musicgen_melody_decoder"},
        "num_chroma": 12, "chroma_length": 4},
    "gemma3n": {
        "vision_config": {"model_type": "gemma3n_vision", "architecture": "mobilenetv3_small_050", "num_classes": 0,
        "hidden_size": 1024, "vocab_size": 16, "vocab_offset": 120},
        "text_config.hidden_size_per_layer_input": 8, "text_config.vocab_size_per_layer_input": 120, "text_config.laurel_rank": 8,
        "text_config.num_kv_shared_layers": 0, "text_config.activation_sparsity_pattern": [0.0, 0.0],
        "audio_config.conf_num_attention_heads": 4, "audio_config.conf_num_hidden_layers": 2, "audio_config.vocab_size": 16,
    },
    "xclip": {"vision_config.mit_hidden_size": 32, "vision_config.mit_intermediate_size": 40, "vision_config.mit_num_hidden_layers": 2,
        "vision_config.mit_num_attention_heads": 4,
        "projection_dim": 32},
    "llava_next": {"image_grid_pinpoints": [[32, 32]]},
    "llava_next_video": {"image_grid_pinpoints": [[32, 32]]},
    "llava_onevision": {"image_grid_pinpoints": [[32, 32]]},
    "glm4v_moe": {"text_config.n_routed_experts": 4, "text_config.num_experts_per_tok": 2},
    "rag": {"generator": {"model_type": "bart"}},
    "idefics": {"vision_config.embed_dim": 32, "perceiver_config.use_resampler": False},
    "reformer": {
        "axial_pos_embds_dim": (16, 16), "axial_pos_shape": (6, 8), "attn_layers": ["lsh", "local"], "attention_head_size": 8,
        "lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8, "num_buckets": 4, "num_hashes": 1, "feed_forward_size": 37,
        "hash_seed": 0, "is_decoder": False,
    },
}  # fmt: skip
CLASSES = {  # where the class of a config that transformers lists, or the first, is only a part of the model
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
    "vitpose_backbone": "VitPoseBackbone",
    "qwen2_5_omni": "Qwen2_5OmniThinkerForConditionalGeneration",
    "slanet": "SLANetForTableRecognition",
}
LENGTHS = dict.fromkeys(("big_bird", "bigbird_pegasus", "longformer", "led", "longt5", "pegasus_x", "reformer"), 48)


def _with(**made: Callable[[nn.Module, dict[str, Any]], Any]) -> Callable[[nn.Module, dict[str, Any]], dict[str, Any]]:
    """Return a function that adds inputs to those of a model."""
    return lambda model, inputs: {**inputs, **{name: make(model, inputs) for name, make in made.items()}}


def _only(**made: Callable[[nn.Module, dict[str, Any]], Any]) -> Callable[[nn.Module, dict[str, Any]], dict[str, Any]]:
    """Return a function that makes all inputs of a model."""
    return lambda model, inputs: {name: make(model, inputs) for name, make in made.items()}


def _numbers(*shape: int) -> Callable[[nn.Module, dict[str, Any]], Tensor]:
    return lambda model, inputs: torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _ones(*shape: int) -> Callable[[nn.Module, dict[str, Any]], Tensor]:
    return lambda model, inputs: torch.ones(*shape)


def _picture_sizes(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    return torch.tensor([tuple(inputs["pixel_values"].shape[-2:])] * 2)


def _music(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return a text and codes of two codebooks."""
    ids = torch.randint(5, 30, (2 * 2, 6), generator=torch.Generator().manual_seed(1))
    return {"input_ids": inputs["input_ids"], "decoder_input_ids": ids}


def _series(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return a past of ten values and a future of four, with one feature of time."""
    past, future = 8 + 2, 4
    features = model.config.num_time_features
    return {
        "past_values": torch.randn(2, past, generator=torch.Generator().manual_seed(1)),
        "past_time_features": torch.ones(2, past, features),
        "past_observed_mask": torch.ones(2, past),
        "future_values": torch.randn(2, future, generator=torch.Generator().manual_seed(2)),
        "future_time_features": torch.ones(2, future, features),
    }


INPUTS: dict[str, Callable[[nn.Module, dict[str, Any]], dict[str, Any]]] = {
    "lxmert": _with(visual_feats=_numbers(2, 5, 16), visual_pos=_numbers(2, 5, 4)),
    "kosmos-2": _with(
        image_embeds_position_mask=lambda model, inputs: torch.tensor([[0] + [1] * 4 + [0] * 7] * 2),
    ),
    "udop": _with(bbox=lambda model, inputs: inputs["bbox"].float()),
    "vilt": _with(pixel_mask=lambda model, inputs: torch.ones(2, *inputs["pixel_values"].shape[-2:], dtype=torch.int64)),
    "speecht5": _only(input_values=_numbers(2, 6, 32), decoder_input_values=_numbers(2, 5, 32)),
    "audio-spectrogram-transformer": _only(input_values=lambda model, inputs: torch.randn(2, model.config.max_length,
        model.config.num_mel_bins)),
    "time_series_transformer": _series,
    "informer": _series,
    "autoformer": _series,
    "patchtst": _only(past_values=_numbers(2, 32, 2)),
    "musicgen": _music,
    "musicgen_melody": _music,
    "wav2vec2-bert": _only(input_features=_numbers(2, 12, 16)),
    "speech_to_text": _with(input_features=_numbers(2, 24, 16)),
    "idefics": _with(pixel_values=_numbers(2, 1, 3, 32, 32), image_attention_mask=lambda model, inputs: torch.ones(2, 12, 1)),
    "llava_next_video": _with(image_sizes=_picture_sizes),
    "llava_onevision": _with(image_sizes=_picture_sizes),
    "timesfm2_5": _only(past_values=_numbers(2, 32)),
    "mistral3": _with(image_sizes=_picture_sizes),
    "llava_next": _with(image_sizes=_picture_sizes),
    "vjepa2": _only(pixel_values_videos=_numbers(2, 2, 3, 32, 32)),
    "xclip": _with(pixel_values=_numbers(2, 2, 3, 32, 32)),
    "videoprism": _only(pixel_values_videos=_numbers(2, 2, 3, 32, 32)),
    "videomt": _only(pixel_values=_numbers(2, 2, 3, 32, 32)),
    "superglue": _only(pixel_values=_numbers(2, 2, 3, 64, 64)),
    "clap": _with(input_features=_numbers(2, 1, 32, 16)),
    "decision_transformer": lambda model, inputs: {
        "states": torch.randn(2, 5, model.config.state_dim), "actions": torch.randn(2, 5, model.config.act_dim),
        "rewards": torch.randn(2, 5, 1), "returns_to_go": torch.randn(2, 5, 1), "timesteps": torch.arange(5).repeat(2, 1),
        "attention_mask": torch.ones(2, 5),
    },
    "pix2struct": _with(flattened_patches=_numbers(2, 6, 770)),
    "sam": _with(input_points=lambda model, inputs: torch.full((2, 1, 1, 2), 8.0)),
}  # fmt: skip

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
_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_VIT = {
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "image_size": 32, "patch_size": 8, "out_features": _STAGES,
    "reshape_hidden_states": False, "initializer_range": 0.2,
}  # fmt: skip
_DEPTH = {"neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16, "head_hidden_size": 8, "reassemble_hidden_size": 32,
    "depth_estimation_type": "metric", "max_depth": 10}  # fmt: skip
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
    "timesfm2_5": {"patch_length": 8},
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
    "glm4v_moe": {"text_config.rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0,
        "mrope_section": [1, 1, 2]}, "text_config.n_routed_experts": 4, "text_config.num_experts_per_tok": 2},
    "rag": {"generator": {"model_type": "bart"}},
    "idefics": {"vision_config.embed_dim": 32, "perceiver_config.use_resampler": False},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "align": {"projection_dim": 640},
    "blt": {"use_cache": False, "encoder_config.hidden_size_global": 32, "decoder_config.hidden_size_global": 32,
        "encoder_hash_byte_group_vocab": 100},
    "chameleon": {"vocabulary_map": {"<image>": 4}, "vq_config.base_channels": 32, "vq_config.embed_dim": 8,
        "vq_config.num_embeddings": 32},
    "clvp": {"text_config.hidden_size": 128, "speech_config.hidden_size": 128},
    "sam3": {"vision_config.fpn_hidden_size": 32},
    "sam3_lite_text": {"vision_config.fpn_hidden_size": 32},
    "sam3_tracker": {"vision_config.fpn_hidden_size": 32, "vision_config.backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "emu3": {"vocabulary_map": {"<image>": 4}, "vq_config.base_channels": 32},
    "chmv2": {"initializer_range": 0.2,
        "backbone_config": {"model_type": "dinov3_vit", "intermediate_size": 40, **_VIT, "return_class_token": True,
        "reshape_hidden_states": True}, "patch_size": 8,
        "post_process_channels": [8, 8, 16, 16], "fusion_hidden_size": 16, "head_hidden_size": 8, "number_output_channels": 8},
    "depth_anything": {"initializer_range": 0.1, "backbone_config": {"model_type": "dinov2", **_VIT}, "patch_size": 8, **_DEPTH},
    "prompt_depth_anything": {"initializer_range": 0.2, "backbone_config": {"model_type": "dinov2", **_VIT}, "patch_size": 8, **_DEPTH},
    "tipsv2_dpt": {"backbone_config": {"model_type": "tipsv2_vision_model", **_VIT}, "neck_hidden_sizes": [8, 8, 16, 16],
        "fusion_hidden_size": 16, "num_depth_bins": 16},
    "zoedepth": {"initializer_range": 0.1,
        "backbone_config": {"model_type": "beit", "intermediate_size": 40, "layer_scale_init_value": 1.0, **_VIT},
        "neck_hidden_sizes": [8, 8, 16, 16],
        "fusion_hidden_size": 16, "bottleneck_features": 16, "bin_embedding_dim": 8, "num_relative_features": 8},
    "depth_pro": {"patch_size": 16, "fusion_hidden_size": 16, "intermediate_hook_ids": [1, 0], "intermediate_feature_dims": [8, 8],
        "scaled_images_feature_dims": [8, 8, 8], "use_fov_model": False, "image_model_config.image_size": 16,
        "image_model_config.patch_size": 4, "patch_model_config.image_size": 16, "patch_model_config.patch_size": 4},
    "clap": {"audio_config": {"spec_size": 64, "num_mel_bins": 16, "patch_size": 4, "depths": [1, 1], "num_attention_heads": [2, 4],
        "patch_embeds_hidden_size": 16, "hidden_size": 32, "window_size": 4, "num_hidden_layers": 2, "projection_dim": 16}},
    "cohere_compass": {"text_config.rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "csm": {"codec_config.upsample_groups": 32, "codec_config.num_filters": 4, "depth_decoder_config.backbone_hidden_size": 32,
        "text_vocab_size": 120},
    "mimi": {"upsample_groups": 32, "num_filters": 4, "num_quantizers": 2},
    "pocket_tts_audio_tokenizer": {"upsample_groups": 32, "num_filters": 4},
    "dia": {"decoder_config.num_channels": 9, "decoder_config.cross_num_attention_heads": 4, "decoder_config.cross_head_dim": 8,
        "decoder_config.cross_num_key_value_heads": 4, "decoder_config.cross_hidden_size": 32},
    "diffusion_gemma": {"text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 16,
        "text_config.per_layer_config": {}, "canvas_length": 8},
    "sam_hq": {
        "vision_config.output_channels": 32, "vision_config.num_pos_feats": 16, "vision_config.global_attn_indexes": [1],
        "vision_config.window_size": 2, "vision_config.initializer_range": 0.02, "mask_decoder_config.vit_dim": 32,
    },
    "efficientloftr": {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8, "num_attention_layers": 2},
    "superglue": {"hidden_size": 32, "keypoint_encoder_sizes": [16, 32], "gnn_layers_types": ["self", "cross"],
        "keypoint_detector_config.descriptor_decoder_dim": 32},
    "fun_asr_nano": {"adaptor_config.intermediate_size": 8, "adaptor_config.projector_hidden_size": 32,
        "audio_config.num_timestamp_prediction_layers": 1},
    "gradium_phonon_tts": {"flow_head_config.condition_dim": 32},
    "pocket_tts": {"flow_head_config.condition_dim": 32},
    "granite4_vision": {"image_grid_pinpoints": [[32, 32]], "spatial_target_layers": [0, 1]},
    "granite_speech5_ctc": {"encoder_config.context_size": 8},
    "longcat_flash": {"head_dim": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "qk_head_dim": 16, "zero_expert_num": 2},
    "lw_detr": {"backbone_config.num_windows": 4, "backbone_config.image_size": 64, "backbone_config.pretrain_image_size": 64,
        "backbone_config.window_block_indices": [0], "backbone_config.out_features": ["stage1", "stage2"], "projector_scale_factors": [1.0],
        "group_detr": 1, "decoder_self_attention_heads": 4, "decoder_cross_attention_heads": 4, "projector_out_channels": 32},
    "mobilevitv2": {"image_size": 64, "patch_size": 2},
    "molmo2": {"adapter_config.vision_feature_layer": [1, 0], "adapter_config.text_hidden_size": 32, "text_config.rope_scaling_layers": []},
    "moonshine_streaming": {"num_key_value_heads": 4, "encoder_config.sliding_windows": [[16, 4], [16, 0]]},
    "muse_spark": {"audio_config.patch_sizes": [16, 6], "audio_config.hidden_sizes": [16, 32], "audio_config.depths": [1, 1],
        "audio_config.out_hidden_size": 32, "text_config.moe_hidden_size": 32, "text_config.layer_rope_theta": [10000.0, 10000.0],
        "projector_hidden_size": 32},
    "nemotron3_diarization": {"head_config.audio_hidden_size": 32},
    "nemo_speechlm": {"audio_config.diarization_config.head_config.audio_hidden_size": 32,
        "text_config.layers_block_type": ["linear_attention", "full_attention"], "text_config.n_groups": 2},
    "nemotron_h_omni": {"vision_config.video_temporal_patch_size": 2,
        "text_config.layers_block_type": ["linear_attention", "full_attention"], "text_config.n_groups": 2},
    "neomme": {"head_dim": 16, "embedding_rank": 16},
    "patchtsmixer": {"self_attn": True, "num_input_channels": 2},
    "qwen4_exp": {"text_config.indexer_n_heads": 2, "text_config.indexer_kv_heads": 1, "text_config.indexer_head_dim": 8,
        "text_config.indexer_budget": 4, "text_config.indexer_compress_ratio": 2, "text_config.hc_lowrank": 8,
        "text_config.ngram_vocab_size_base": 64, "text_config.ple_embed_dim": 32},
    "seggpt": {"image_size": [64, 32], "merge_index": 0, "intermediate_hidden_state_indices": [0, 1], "decoder_hidden_size": 8},
    "slanext": {"vision_config.image_size": 64, "vision_config.window_size": 2, "vision_config.global_attn_indexes": [1],
        "vision_config.output_channels": 32, "post_conv_in_channels": 32, "post_conv_out_channels": 32, "max_text_length": 5},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8, "num_frames": 2},
    "vitmatte": {"fusion_hidden_sizes": [16, 8, 8, 8], "convstream_hidden_sizes": [8, 8, 8], "backbone_config": {
        "model_type": "vitdet", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64,
        "pretrain_image_size": 64, "patch_size": 16, "num_channels": 4, "out_features": ["stage2"],
        "initializer_range": 0.2}, "initializer_range": 0.1},
    "oneformer": {"conv_dim": 32, "mask_dim": 32, "hidden_dim": 32, "encoder_feedforward_dim": 16, "dim_feedforward": 32,
        "text_encoder_width": 32, "text_encoder_num_layers": 1, "encoder_layers": 1, "num_attention_heads": 4},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", "sparse"], "text_config.n_routed_experts": 4,
        "text_config.num_experts_per_tok": 2, "text_config.n_group": 1, "text_config.topk_group": 1,
        "vision_config.sam_config.global_attn_indexes": [1], "vision_config.sam_config.window_size": 2,
        "vision_config.sam_config.output_channels": 32, "vision_config.sam_config.downsample_channels": [32, 32]},
    "siglip2": {"vision_config.num_patches": 16},
    "timesfm": {"patch_length": 8, "horizon_length": 8},
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
    "qwen3_omni_moe": "Qwen3OmniMoeThinkerForConditionalGeneration",
    "bark": "BarkSemanticModel",
    "pop2piano": "Pop2PianoForConditionalGeneration",
    "videomt": "VideomtForUniversalSegmentation",
}
PARTS = {  # where a family's config is of several models that run one after another: the first of them
    "qwen2_5_omni": "Qwen2_5OmniThinkerConfig",
    "qwen3_omni_moe": "Qwen3OmniMoeThinkerConfig",
    "bark": "BarkSemanticConfig",
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


def _flattened_patches(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """Return six patches of Pix2Struct, each after its row and column."""
    places = torch.tensor([[[row, column] for row in (1, 2) for column in (1, 2, 3)]] * 2)
    width = model.config.vision_config.patch_embed_hidden_size
    return torch.cat([places.float(), torch.randn(2, 6, width, generator=torch.Generator().manual_seed(1))], -1)


def _zeros(*shape: int) -> Callable[[nn.Module, dict[str, Any]], Tensor]:
    return lambda model, inputs: torch.zeros(*shape, dtype=torch.int64)


def _words(*shape: int) -> Callable[[nn.Module, dict[str, Any]], Tensor]:
    return lambda model, inputs: torch.randint(20, 100, shape, generator=torch.Generator().manual_seed(1))


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
    "decision_transformer": lambda model, inputs: {
        "states": torch.randn(2, 5, model.config.state_dim), "actions": torch.randn(2, 5, model.config.act_dim),
        "rewards": torch.randn(2, 5, 1), "returns_to_go": torch.randn(2, 5, 1), "timesteps": torch.arange(5).repeat(2, 1),
        "attention_mask": torch.ones(2, 5),
    },
    "videomt": _only(pixel_values_videos=_numbers(2, 2, 3, 32, 32)),
    "videoprism": _only(pixel_values_videos=_numbers(2, 2, 3, 32, 32), input_ids=_words(2, 8)),
    "superglue": _only(pixel_values=_numbers(1, 2, 3, 64, 64)),
    "efficientloftr": _only(pixel_values=_numbers(1, 2, 3, 64, 64)),
    "clap": _with(input_features=_numbers(2, 1, 64, 16)),
    "pix2struct": _only(flattened_patches=_flattened_patches, decoder_input_ids=_words(2, 5)),
    "colqwen2": lambda model, inputs: inputs if "image_grid_thw" not in inputs else {
        **inputs, "pixel_values": inputs["pixel_values"].unflatten(0, (2, -1)),
        "input_ids": torch.cat([inputs["input_ids"], torch.full((2, 4), model.config.vlm_config.image_token_id)], 1)},
    "pp_ocrv5_mobile_rec": _only(pixel_values=_numbers(1, 3, 96, 96)),
    "pp_ocrv5_server_rec": _only(pixel_values=_numbers(1, 3, 96, 96)),
    "kyutai_speech_to_text": _only(input_ids=_words(2, 6, 33)),
    "clvp": _with(input_features=_numbers(2, 80, 20)),
    "mimi": _only(input_values=_numbers(2, 1, 3840)),
    "pocket_tts_audio_tokenizer": _only(input_values=_numbers(2, 1, 3840)),
    "dac": _only(input_values=_numbers(2, 1, 2000)),
    "encodec": _only(input_values=_numbers(2, 1, 2000)),
    "xcodec": _only(input_values=_numbers(2, 1, 2000)),
    "vibevoice_acoustic_tokenizer": _only(input_values=_numbers(2, 1, 6400)),
    "dia": _with(decoder_input_ids=_words(2, 6, 9)),
    "sam_hq": _with(input_points=lambda model, inputs: torch.full((2, 1, 1, 2), 8.0)),
    "patchtsmixer": _only(past_values=_numbers(2, 32, 2)),
    "seggpt": _only(pixel_values=_numbers(2, 3, 32, 32), prompt_pixel_values=_numbers(2, 3, 32, 32), prompt_masks=_numbers(2, 3, 32, 32)),
    "siglip2": _with(pixel_values=_numbers(2, 16, 192), pixel_attention_mask=_ones(2, 16),
        spatial_shapes=lambda model, inputs: torch.tensor([[4, 4]] * 2)),
    "slanext": _only(pixel_values=_numbers(1, 3, 64, 64)),
    "speech-encoder-decoder": _only(input_values=_numbers(2, 2000), decoder_input_ids=_words(2, 6)),
    "timesfm": _only(past_values=_numbers(2, 32), past_values_padding=_zeros(2, 32), freq=_zeros(2, 1)),
    "tvp": _with(pixel_values=_numbers(2, 2, 3, 64, 64)),
    "vitmatte": _only(pixel_values=_numbers(2, 4, 64, 64)),
    "depth_pro": _only(pixel_values=_numbers(1, 3, 64, 64)),
    "granite4_vision": _with(image_sizes=_picture_sizes),
    "oneformer": _with(task_inputs=lambda model, inputs: torch.ones(2, 77)),
    "pop2piano": _only(input_features=_numbers(2, 6, 32), decoder_input_ids=_words(2, 5)),
    "voxtral_realtime": _only(input_ids=_words(1, 8), input_features=_numbers(1, 16, 64)),
    "qwen2_5_omni": _only(input_ids=_words(2, 8)),
    "qwen3_omni_moe": _only(input_ids=_words(2, 8)),
    "sam": _with(input_points=lambda model, inputs: torch.full((2, 1, 1, 2), 8.0)),
}  # fmt: skip

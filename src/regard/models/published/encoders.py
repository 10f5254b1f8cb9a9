"""BERT and the other encoder families, and the encoder–decoder families."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from regard.models.published.architecture import ATTENTION_BIASES, MLP_BIASES, Architecture, ConfigError
from regard.models.published.family import Family, Loader, Shape, activation, sizes
from regard.models.published.fields import Fields
from regard.models.published.tensors import bert_tensors

if TYPE_CHECKING:
    from regard.models.bert import BertConfig

__all__ = ["ENCODER_FAMILIES"]


def _bert(c: Fields, *, decoder_bias: bool = True) -> Shape:
    # If untied, the head has a bias of its own and one more in its layer `decoder`; ELECTRA's head has no such layer.
    decoder = frozenset({"decoder"}) if decoder_bias and not c.flag("tie_word_embeddings") else frozenset()
    return {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": c.count("num_attention_heads"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("intermediate_size"),
        "positions": c.count("max_position_embeddings"),
        "token_types": c.size("type_vocab_size"),
        "embedding_width": c.size("embedding_size") if "embedding_size" in c else 0,
        "activation": c.text("hidden_act"),
        "biases": ATTENTION_BIASES | MLP_BIASES | {"head", "projection"} | decoder,
        "norm_place": "after",
        "final_norm": False,
        "embedding_norm": True,
        "tied": c.flag("tie_word_embeddings"),
        "causal": False,
    }


def _albert(c: Fields) -> Shape:
    if c.count("inner_group_num") != 1:
        raise ConfigError(f"field 'inner_group_num' is {c.any('inner_group_num')!r}; expected 1")
    return {**_bert(c), "shared_layers": c.count("num_hidden_groups"), "embedding_projection": "in"}


def _distilbert(c: Fields) -> Shape:
    return {
        "layers": c.count("n_layers"),
        "width": c.count("dim"),
        "heads": c.count("n_heads"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("hidden_dim"),
        "positions": c.count("max_position_embeddings"),
        "activation": c.text("activation"),
        "biases": ATTENTION_BIASES | MLP_BIASES | {"head", "projection"},
        "norm_place": "after",
        "final_norm": False,
        "embedding_norm": True,
        "tied": c.flag("tie_word_embeddings"),
        "causal": False,
    }


def _t5(c: Fields) -> Shape:
    feed_forward = c.text("feed_forward_proj")
    return {
        "encoder_layers": c.count("num_layers"),
        "layers": c.maybe("num_decoder_layers") or c.count("num_layers"),
        "width": c.count("d_model"),
        "heads": c.count("num_heads"),
        "head_dim": c.count("d_kv"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("d_ff"),
        "gated": feed_forward.startswith("gated-"),
        "activation": "gelu_new" if feed_forward == "gated-gelu" else feed_forward.removeprefix("gated-"),
        "norm": "gain",
        "position": "relative",
        "relative_buckets": c.count("relative_attention_num_buckets"),
        "tied": c.flag("tie_word_embeddings"),
    }


def _bart(c: Fields) -> Shape:
    for part in ("ffn_dim", "attention_heads"):
        if c.count(f"encoder_{part}") != c.count(f"decoder_{part}"):
            raise ConfigError(
                f"field 'encoder_{part}' is {c.count(f'encoder_{part}')}; expected the decoder's {c.count(f'decoder_{part}')}"
            )
    return {
        "encoder_layers": c.count("encoder_layers"),
        "layers": c.count("decoder_layers"),
        "width": c.count("d_model"),
        "heads": c.count("decoder_attention_heads"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("decoder_ffn_dim"),
        "positions": c.count("max_position_embeddings") + 2,  # the first two rows are unused
        "activation": c.text("activation_function"),
        "biases": ATTENTION_BIASES | MLP_BIASES,
        "norm_place": "after",
        "final_norm": False,
        "embedding_norm": True,
        "tied": c.flag("tie_word_embeddings"),
    }


def _bert_config(c: Fields, a: Architecture, names: Collection[str]) -> BertConfig:
    """Build the config: post-norm, learned positions and segments; pooling layer and masked-token head if the folder has them."""
    from regard.models.bert import BertConfig

    if c.text("position_embedding_type") != "absolute":
        raise ConfigError(f"config.json has position_embedding_type {c.text('position_embedding_type')!r}; expected 'absolute'")
    return BertConfig(
        **sizes(a),
        context=a.positions,
        types=a.token_types,
        eps=c.number("layer_norm_eps"),
        activation=activation(c, "hidden_act"),
        dropout=c.number("hidden_dropout_prob"),
        attention_dropout=c.number("attention_probs_dropout_prob"),
        pooled=any(name.removeprefix("bert.") == "pooler.dense.weight" for name in names),
        masked="cls.predictions.transform.dense.weight" in names,
    )


_BERT: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "tie_word_embeddings": True,
}

_RUN: dict[str, Any] = {  # fields that matter only for running the model
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "position_embedding_type": "absolute",
}

ENCODER_FAMILIES: dict[str, Family] = {
    "albert": Family(
        _albert,
        _BERT
        | {"vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384}
        | {"hidden_act": "gelu_new", "num_hidden_groups": 1, "inner_group_num": 1},
        encoder=True,
        pooler=True,
    ),
    "bart": Family(
        _bart,
        {
            "vocab_size": 50265,
            "max_position_embeddings": 1024,
            "encoder_layers": 12,
            "encoder_ffn_dim": 4096,
            "encoder_attention_heads": 16,
            "decoder_layers": 12,
            "decoder_ffn_dim": 4096,
            "decoder_attention_heads": 16,
            "activation_function": "gelu",
            "d_model": 1024,
            "tie_word_embeddings": True,
        },
    ),
    "bert": Family(_bert, _BERT | _RUN, encoder=True, pooler=True, bert=Loader(_bert_config, bert_tensors)),
    "distilbert": Family(
        _distilbert,
        {
            "vocab_size": 30522,
            "max_position_embeddings": 512,
            "n_layers": 6,
            "n_heads": 12,
            "dim": 768,
            "hidden_dim": 3072,
            "activation": "gelu",
            "tie_word_embeddings": True,
        },
        {"num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_size": "dim"},
        encoder=True,
    ),
    "electra": Family(
        lambda c: _bert(c, decoder_bias=False),
        _BERT | {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
        encoder=True,
    ),
    "roberta": Family(_bert, _BERT | {"vocab_size": 50265}, encoder=True, pooler=True),
    "t5": Family(
        _t5,
        {
            "vocab_size": 32128,
            "d_model": 512,
            "d_kv": 64,
            "d_ff": 2048,
            "num_layers": 6,
            "num_decoder_layers": None,
            "num_heads": 8,
            "relative_attention_num_buckets": 32,
            "feed_forward_proj": "relu",
            "tie_word_embeddings": True,
        },
        {"num_hidden_layers": "num_layers", "hidden_size": "d_model", "num_attention_heads": "num_heads"},
    ),
    "xlm-roberta": Family(_bert, _BERT, encoder=True, pooler=True),
}

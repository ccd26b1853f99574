"""Architectures of transformers by name, of small configurations: forward and backward."""

from __future__ import annotations

from typing import Any

from . import transformers_rows
from .program import Inputs, Program, Row

PACKAGE = transformers_rows.PACKAGE
NEEDS = transformers_rows.NEEDS
# Values for options, used if the configuration has the option.
SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32,
    "embedding_size": 32, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "rotary_dim": 8, "intermediate_size": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "d_kv": 8, "vocab_size": 99,
    "max_position_embeddings": 64, "n_positions": 64, "image_size": 32, "patch_size": 8,
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "n_routed_experts": 4, "q_lora_rank": 16, "kv_lora_rank": 16,
    "state_size": 8, **transformers_rows.ENDS,
}  # fmt: skip
# Models of tokens, models of images, and models from tokens to tokens.
TEXT = (
    "apertus arcee bert-generation big_bird biogpt bitnet bloom camembert canine codegen cohere "
    "cohere2 convbert ctrl cwm data2vec-text deberta deberta-v2 diffllama doge ernie ernie4_5 esm "
    "exaone4 falcon_h1 falcon_mamba flex_olmo fnet gemma2 gemma3_text git glm glm4 "
    "glm4_moe gpt_bigcode gpt_neox_japanese gpt_oss gptj granite granitemoe helium ibert jetmoe "
    "layoutlm lfm2 megatron-bert minimax ministral mobilebert modernbert mpnet mpt mra nemotron "
    "nystromformer olmo2 olmo3 olmoe openai-gpt persimmon phi3 phimoe qwen2_moe qwen3 qwen3_moe "
    "rembert roberta-prelayernorm roformer seed_oss smollm3 splinter squeezebert stablelm "
    "starcoder2 vaultgemma xglm xlm-roberta xlm-roberta-xl yoso"
).split()
IMAGES = "beit data2vec-vision dinov2_with_registers ijepa mobilenet_v2 vit_msn yolos".split()
SEQUENCES = (
    "bigbird_pegasus blenderbot blenderbot-small longt5 m2m_100 marian mbart mt5 mvp pegasus "
    "plbart switch_transformers umt5"
).split()


def architecture(kind: str) -> Any:
    def make(draw: Inputs) -> Program:
        from transformers import CONFIG_MAPPING, AutoModel

        configuration = CONFIG_MAPPING[kind]
        usual = configuration()
        settings = {
            name: value for name, value in SMALL.items()
            if isinstance(getattr(usual, name, None), (int, type(None))) and hasattr(usual, name)
        }  # fmt: skip
        model = AutoModel.from_config(configuration(**settings))
        keywords: dict[str, Any] = {}
        if kind in IMAGES:
            keywords["pixel_values"] = draw.normal(2, 3, 32, 32)
        else:
            keywords["input_ids"] = draw.ints(90, 2, 12) + 3
        if kind in SEQUENCES:
            keywords["decoder_input_ids"] = draw.ints(90, 2, 6) + 3
        return Program(model, (), keywords, train=False)

    return make


KINDS = (*TEXT, *IMAGES, *SEQUENCES)
ROWS = [Row(f"architecture {kind}", PACKAGE, architecture(kind)) for kind in KINDS]
